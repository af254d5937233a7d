"""A WordPress network for tests: the table of blogs as WordPress has it, and blogs with Action Scheduler's
tables."""
import lib_actionscheduler as bed

BLOGS = """CREATE TABLE wp_blogs (
    blog_id bigint(20) NOT NULL auto_increment,
    site_id bigint(20) NOT NULL default '0',
    domain varchar(200) NOT NULL default '',
    path varchar(100) NOT NULL default '',
    registered datetime NOT NULL default '0000-00-00 00:00:00',
    last_updated datetime NOT NULL default '0000-00-00 00:00:00',
    public tinyint(2) NOT NULL default '1',
    archived tinyint(2) NOT NULL default '0',
    mature tinyint(2) NOT NULL default '0',
    spam tinyint(2) NOT NULL default '0',
    deleted tinyint(2) NOT NULL default '0',
    lang_id int(11) NOT NULL default '0',
    PRIMARY KEY (blog_id),
    KEY domain (domain(50), path(5)),
    KEY lang_id (lang_id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci"""


def begin(site):
    """Makes a site the main one of a network."""
    site.sql(BLOGS)
    add_row(site, 1)


def add_row(site, blog, **columns):
    values = {"blog_id": blog, "site_id": 1, "domain": "shop.example", "path": "/%d/" % blog, **columns}
    site.sql("INSERT INTO wp_blogs (%s) VALUES (%s)" % (
        ", ".join(values), ", ".join(bed.quote(v) for v in values.values())))


def add_blog(site, blog, **columns):
    """With Action Scheduler's tables; the row comes last, as nobody may see half of it."""
    made = bed.Site(site.maria, database=site.database, prefix="wp_%d_" % blog)
    made.set_option("siteurl", "http://shop.example/%d" % blog)
    add_row(site, blog, **columns)
    return made
