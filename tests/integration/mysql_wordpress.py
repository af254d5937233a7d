#!/usr/bin/python3
# weir-test: timeout=300 long
"""WordPress through weir's MySQL door.  In observe mode its pages have the bytes that they have
without the door, before and during a pause of the operator; the door counts what it would have held."""
import http.cookiejar
import os
import re
import sys
import urllib.error
import urllib.parse
import urllib.request

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lib_mysql_door import Bed, maria  # noqa: E402
from lib_wordpress import ADMIN, Site  # noqa: E402
from harness import equal, expect, main, test  # noqa: E402

PAGES = ("/", "/?p=1", "/?page_id=2", "/?s=hello", "/?feed=rss2", "/?cat=1", "/?author=1", "/?p=999",
         "/wp-login.php", "/?rest_route=/wp/v2/posts", "/?rest_route=/wp/v2/users", "/wp-admin/",
         "/wp-admin/edit.php", "/wp-admin/users.php", "/wp-admin/options-reading.php",
         "/wp-admin/post.php?post=1&action=edit", "/wp-admin/edit-comments.php", "/wp-admin/plugins.php", "/wp-admin/tools.php")
# What differs from one request to the next on any server: times, keys that are made from them, and
# measures of the request itself.
CHANGING = (rb'"?_?(wp)?_?nonce"?[^0-9a-f]{1,40}[0-9a-f]{10}', rb"[0-9a-f]{10}(?=[\"'&])",
            rb"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d", rb"\b1[0-9]{9}\b", rb"\b1[0-9]{12}\b",
            rb"[0-9](?=\.gravatar\.com)",  # one of its servers, at random
            rb"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+0-9]+")


def visit(url):
    """{page: (status, its bytes)}, as the administrator."""
    jar = http.cookiejar.CookieJar()
    web = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    form = {"log": ADMIN[0], "pwd": ADMIN[1], "testcookie": "1", "wp-submit": "Log In"}
    web.open(url + "/wp-login.php", timeout=120).read()
    web.open(url + "/wp-login.php", urllib.parse.urlencode(form).encode(), timeout=120).read()
    expect(any("logged_in" in c.name for c in jar), "no login")
    found = {}
    for page in PAGES:
        try:
            with web.open(url + page, timeout=120) as answer:
                status, body = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, body = error.code, error.read()
        body = re.sub(rb"&#0?(\d{2,3});", lambda m: bytes([int(m.group(1)) & 127]), body)  # see antispambot()
        for changing in CHANGING:
            body = re.sub(changing, b"#", body)
        found[page] = (status, body.replace(url.encode(), b"SITE").replace(
            urllib.parse.quote(url, "").encode(), b"SITE").replace(
            url.replace("/", "\\/").encode(), b"SITE"))
    return found


def same(got, wanted, what):
    for page in PAGES:
        equal(got[page][0], wanted[page][0], "%s: status of %s" % (what, page))
        a, b = got[page][1], wanted[page][1]
        at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        expect(a == b, "%s: %s differs at byte %d: %r, direct %r" % (
            what, page, at, a[max(0, at - 60):at + 60], b[max(0, at - 60):at + 60]))
        expect(len(b) > 30, "%s is empty" % page)


@test("the pages of a WordPress whose database is behind the door in observe mode have the same bytes")
def observed(folder):
    site = Site(maria())
    direct = visit(site.serve())
    again = visit(site.url)
    same(again, direct, "a second visit without the door")  # what is compared below does not change
    site.stop()
    with Bed(folder, mode="observe", classes={"site": 'user = "root" tier = "deferrable"'}) as bed:
        with open(site.root + "/wp-config.php") as f:
            config = f.read()
        site.write("wp-config.php", config.replace("127.0.0.1:%d" % maria().port, "%s:%d" % bed.address))
        site.serve()
        same(visit(site.url), direct, "through the door")
        bed.hold()
        same(visit(site.url), direct, "through the door during a pause")
        counts = bed.classes()["site"]
        site.stop()
    expect(counts["transactions"] > 200, counts)
    expect(counts["observed"] > 50, counts)
    equal((counts["held"], counts["refused"]), (0, 0), "held, refused")
    equal(site.complaints(), [], "complaints of PHP")


if __name__ == "__main__":
    main()
