/* The theme that was chosen, before the first paint.  A classic script on purpose: modules run
 * after the page has been painted once, and a dark page must not flash white. */
(function() {
'use strict';
var theme = null;
try {
        theme = localStorage.getItem('weir.theme');
} catch (e) {
        /* Storage may be forbidden: the system's theme holds then. */
}
if (theme === 'light' || theme === 'dark')
        document.documentElement.dataset.theme = theme;
})();
