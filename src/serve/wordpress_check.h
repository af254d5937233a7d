/* `weir wordpress check`: connects to the sites of a configuration and says what is there, what
 * weir may do, and what is missing. */
#ifndef WEIR_SERVE_WORDPRESS_CHECK_H
#define WEIR_SERVE_WORDPRESS_CHECK_H

/* argv[0] is "check".  Returns the exit code. */
int wordpress_check_main(int argc, char **argv);

#endif
