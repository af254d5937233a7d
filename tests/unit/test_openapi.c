/* The OpenAPI text: valid JSON, every address of the tables in it, a schema for every answer,
 * nothing that points nowhere; and the notation those schemas are written in. */
#include "check.h"

#include <stdio.h>

#include "api/command.h"
#include "door/openapi.h"
#include "door/shapes.h"
#include "door/site.h"
#include "wire/json.h"

static struct json_value made(struct buf *b)
{
        struct json_value root;
        struct problem p;
        buf_init(b, 0);
        openapi_put(b, "1.2.\"3\"", NULL);
        assert_false(b->failed);
        if (json_parse(buf_slice(b), 64, &root, &p) != OK)
                fail_msg("%s", p.detail);
        return root;
}

static struct json_value at(const struct json_value *v, const char *key)
{
        struct json_value ret = {0};
        if (!json_get(v, key, &ret))
                fail_msg("there is no '%s'", key);
        return ret;
}

static struct json_value operation_at(const struct json_value *root, const char *verb,
                                      const char *address)
{
        char method[8] = "";
        for (size_t i = 0; verb[i]; i++)
                method[i] = (char)(verb[i] | 0x20);
        struct json_value paths = at(root, "paths"), path = at(&paths, address);
        return at(&path, method);
}

static struct json_value operation(const struct json_value *root, const struct command_def *def)
{
        return operation_at(root, def->method, def->path);
}

static void every_command_with_an_address_is_described(void **state)
{
        struct buf b;
        struct json_value root = made(&b);

        (void)state;
        assert_slice(at(&root, "openapi").text, "\"3.1.0\"");
        for (size_t i = 0; i < command_table_len; i++) {
                const struct command_def *def = &command_table[i];
                if (!def->path)
                        continue;
                struct json_value op = operation(&root, def);
                assert_memory_equal(at(&op, "operationId").text.ptr + 1, def->name,
                                    strlen(def->name));
                assert_int_equal(at(&op, "responses").type, JSON_OBJECT);
        }
        buf_release(&b);
}

static void every_page_of_the_door_is_described_with_its_refusals(void **state)
{
        struct buf b;
        struct json_value root = made(&b);

        (void)state;
        for (size_t i = 0; i < site_pages_len; i++) {
                const struct site_page *page = &site_pages[i];
                struct json_value op = operation_at(&root, page->method, page->path);
                assert_memory_equal(at(&op, "operationId").text.ptr + 1, page->name,
                                    strlen(page->name));
                struct json_value answers = at(&op, "responses"), good = at(&answers, "200");
                struct json_value content = at(&good, "content");
                assert_int_equal(json_count(&content), 1);
                assert_int_equal(at(&content, page->content_type).type, JSON_OBJECT);
                for (const char *status = page->statuses; *status; status += strspn(status, " ")) {
                        char text[4] = "";
                        memcpy(text, status, 3);
                        assert_int_equal(at(&answers, text).type, JSON_OBJECT);
                        status += 3;
                }
        }
        buf_release(&b);
}

/* The rules beyond one property, in the schema of that command's body. */
static void assert_rules(const struct json_value *schemas, const char *command, const char *rules)
{
        struct json_value schema = at(schemas, command);
        assert_slice(at(&schema, "allOf").text, rules);
}

static void a_payload_has_one_of_its_names_and_some_exclude_each_other(void **state)
{
#define NOT(one, other) "{\"not\":{\"required\":[\"" one "\",\"" other "\"]}}"
#define TEXT(name)      "{\"dependentRequired\":{\"" name "_is_text\":[\"" name "\"]}}"
#define EITHER(name)    NOT(name, name "_base64") "," TEXT(name)
        struct buf b;
        struct json_value root = made(&b), components = at(&root, "components");
        struct json_value schemas = at(&components, "schemas"), claim = at(&schemas, "CLAIM"),
                          rules;

        (void)state;
        assert_rules(&schemas, "ENQUEUE", "[" EITHER("args") "," NOT("in", "at") "]");
        assert_rules(&schemas, "SCHEDULE", "[" EITHER("args") "," NOT("cron", "every") "]");
        assert_rules(&schemas, "COMPLETE", "[" EITHER("result") "]");
        assert_rules(&schemas, "BATCH", "[" EITHER("successargs") "," EITHER("doneargs") "]");
        assert_false(json_get(&claim, "allOf", &rules));
        buf_release(&b);
#undef NOT
#undef TEXT
#undef EITHER
}

static void a_body_is_required_when_something_in_it_is(void **state)
{
        struct buf b;
        struct json_value root = made(&b);
        size_t n[2] = {0};

        (void)state;
        for (size_t i = 0; i < command_table_len; i++) {
                const struct command_def *def = &command_table[i];
                struct json_value op, body;
                bool is_required = false;
                if (!def->path)
                        continue;
                op = operation(&root, def);
                if (!json_get(&op, "requestBody", &body))
                        continue;
                for (size_t k = 0; k < def->n_params; k++)
                        is_required |= (def->params[k].flags & (PARAM_REQUIRED | PARAM_BARE_MS)) &&
                                       !(def->params[k].flags & (PARAM_IN_PATH | PARAM_IN_QUERY));
                assert_slice(at(&body, "required").text, is_required ? "true" : "false");
                n[is_required]++;
        }
        assert_true(n[0] > 3 && n[1] > 10);
        buf_release(&b);
}

static bool has_parameter(const struct json_value *op, const struct param_def *p)
{
        struct json_value list = at(op, "parameters"), item;
        struct json_iter it = {0};
        char want[64];
        (void)snprintf(want, sizeof(want), "\"%s\"", p->name);
        while (json_array_next(&list, &it, &item)) {
                if (!slice_eq(at(&item, "name").text, slice_str(want)))
                        continue;
                assert_slice(at(&item, "in").text,
                             p->flags & PARAM_IN_PATH ? "\"path\"" : "\"query\"");
                return true;
        }
        return false;
}

static void every_parameter_is_in_the_address_or_in_the_body(void **state)
{
        struct buf b;
        struct json_value root = made(&b), components = at(&root, "components");
        struct json_value schemas = at(&components, "schemas");

        (void)state;
        for (size_t i = 0; i < command_table_len; i++) {
                const struct command_def *def = &command_table[i];
                for (size_t k = 0; def->path && k < def->n_params; k++) {
                        const struct param_def *p = &def->params[k];
                        struct json_value op = operation(&root, def);
                        if (p->flags & (PARAM_IN_PATH | PARAM_IN_QUERY)) {
                                assert_true(has_parameter(&op, p));
                                continue;
                        }
                        assert_int_equal(at(&op, "requestBody").type, JSON_OBJECT);
                        struct json_value schema = at(&schemas, def->name);
                        struct json_value properties = at(&schema, "properties");
                        struct json_value property = at(&properties, p->name);
                        assert_int_equal(at(&property, "description").type, JSON_STRING);
                }
        }
        buf_release(&b);
}

static void every_reference_points_to_something(void **state)
{
        static const char mark[] = "\"$ref\":\"#/components/";
        struct buf b;
        struct json_value root = made(&b), components = at(&root, "components");
        const char *end = b.ptr + b.len;
        size_t n = 0;

        (void)state;
        for (const char *p = b.ptr; (p = memmem(p, (size_t)(end - p), mark, sizeof(mark) - 1));
             n++) {
                char kind[32], name[32];
                p += sizeof(mark) - 1;
                assert_int_equal(sscanf(p, "%31[^/]/%31[^\"]", kind, name), 2);
                struct json_value kinds = at(&components, kind);
                assert_int_equal(at(&kinds, name).type, JSON_OBJECT);
        }
        assert_true(n > 10);
        buf_release(&b);
}

/* ---- shapes ---- */

static void every_command_with_an_address_has_a_shape_and_no_other_has(void **state)
{
        (void)state;
        for (size_t i = 0; i < command_table_len; i++) {
                const struct command_def *def = &command_table[i];
                if (!def->path != !def->reply)
                        fail_msg("%s: its row has %s reply", def->name, def->reply ? "a" : "no");
        }
}

static void every_answer_has_a_schema(void **state)
{
        struct buf b;
        struct json_value root = made(&b);

        (void)state;
        for (size_t i = 0; i < command_table_len; i++) {
                const struct command_def *def = &command_table[i];
                if (!def->path)
                        continue;
                struct json_value op = operation(&root, def), v = at(&op, "responses");
                v = at(&v, strcmp(def->name, "ENQUEUE") == 0 ? "201" : "200");
                v = at(&v, "content");
                v = at(&v, "application/json");
                v = at(&v, "schema");
                if (json_count(&v) == 0)
                        fail_msg("%s has an empty schema", def->name);
        }
        buf_release(&b);
}

static void a_shape_becomes_a_schema(void **state)
{
#define OBJECT "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":"
#define NUMBER "{\"type\":\"integer\",\"format\":\"int64\"}"
#define STRING "{\"type\":\"string\"}"
        static const struct {
                const char *shape, *schema;
        } rows[] = {
                {"s", STRING},
                {"i", NUMBER},
                {"b", "{\"type\":\"boolean\"}"},
                {"j", "{}"},
                {"s?", "{\"type\":[\"string\",\"null\"]}"},
                {"i?", "{\"type\":[\"integer\",\"null\"],\"format\":\"int64\"}"},
                {"<a,b-c>", "{\"type\":\"string\",\"enum\":[\"a\",\"b-c\"]}"},
                {"<a>?", "{\"type\":[\"string\",\"null\"],\"enum\":[\"a\",null]}"},
                {"[s]", "{\"type\":\"array\",\"items\":" STRING "}"},
                {"[s]?", "{\"type\":[\"array\",\"null\"],\"items\":" STRING "}"},
                {"[s?]", "{\"type\":\"array\",\"items\":{\"type\":[\"string\",\"null\"]}}"},
                {"@ok", "{\"$ref\":\"#/components/schemas/ok\"}"},
                {"@ok?",
                 "{\"oneOf\":[{\"$ref\":\"#/components/schemas/ok\"},{\"type\":\"null\"}]}"},
                {"{}", OBJECT "{},\"required\":[]}"},
                {"{*:i}", "{\"type\":\"object\",\"additionalProperties\":" NUMBER "}"},
                {"{a:s b~:i c-d:s}", OBJECT "{\"a\":" STRING ",\"b\":" NUMBER ",\"c-d\":" STRING
                                            "},\"required\":[\"a\",\"c-d\"]}"},
                {"{a~:{b:s}}", OBJECT "{\"a\":" OBJECT "{\"b\":" STRING
                                      "},\"required\":[\"b\"]}},\"required\":[]}"},
                {"{a:[{b:s}]? c:s|i d:s}",
                 OBJECT "{\"a\":{\"type\":[\"array\",\"null\"],\"items\":" OBJECT "{\"b\":" STRING
                        "},\"required\":[\"b\"]}},\"c\":{\"oneOf\":[" STRING "," NUMBER
                        "]},\"d\":" STRING "},\"required\":[\"a\",\"c\",\"d\"]}"},
                {"s?|[i]|{}", "{\"oneOf\":[{\"type\":[\"string\",\"null\"]},{\"type\":\"array\","
                              "\"items\":" NUMBER "}," OBJECT "{},\"required\":[]}]}"},
        };
        struct buf b;
        (void)state;
        buf_init(&b, 0);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                buf_clear(&b);
                shape_put_schema(&b, rows[i].shape);
                if (!slice_eq(buf_slice(&b), slice_str(rows[i].schema)))
                        fail_msg("%s becomes %.*s", rows[i].shape, (int)b.len, b.ptr);
        }
        buf_release(&b);
#undef OBJECT
#undef NUMBER
#undef STRING
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_command_with_an_address_is_described),
                cmocka_unit_test(every_page_of_the_door_is_described_with_its_refusals),
                cmocka_unit_test(a_payload_has_one_of_its_names_and_some_exclude_each_other),
                cmocka_unit_test(a_body_is_required_when_something_in_it_is),
                cmocka_unit_test(every_parameter_is_in_the_address_or_in_the_body),
                cmocka_unit_test(every_reference_points_to_something),
                cmocka_unit_test(every_command_with_an_address_has_a_shape_and_no_other_has),
                cmocka_unit_test(every_answer_has_a_schema),
                cmocka_unit_test(a_shape_becomes_a_schema),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
