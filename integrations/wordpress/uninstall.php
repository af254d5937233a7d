<?php
/* Deletes what Tools > weir stored, in each site of a network, when the plugin is deleted in wp-admin.
 *
 * Locks stay: weir may hold some, and others may wait for them.  What weir itself knows of the site, its
 * moved actions for example, is weir's. */

defined('WP_UNINSTALL_PLUGIN') || exit;

// A copy in mu-plugins goes on with the same settings.
if (!defined('WEIR_FILE')) {
    foreach (is_multisite() ? get_sites(array('fields' => 'ids', 'number' => 0)) : array(0) as $weir_blog) {
        $weir_blog ? delete_blog_option($weir_blog, 'weir_settings') : delete_option('weir_settings');
    }
    unset($weir_blog);
}
