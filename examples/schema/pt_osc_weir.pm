# A plugin of pt-online-schema-change: asks weir, as freno is asked, before the tool goes on copying.
#
#   WEIR_CHECK=http://127.0.0.1:7380/check/pt-osc/mysql/main1 \
#   pt-online-schema-change --plugin=./pt_osc_weir.pm --check-slave-lag=h=db2 ... --execute
#
# The tool asks for the lag of its replicas after every chunk, and this plugin answers that question:
# it comes back with 0 when weir grants the check, and not before.  So it needs at least one replica to
# ask about, which --check-slave-lag names.  While weir is away the copy waits.  A check that can never
# be granted (no such target, no such name, a token is needed) ends the tool before it changes anything.
# With https:// (Debian: libio-socket-ssl-perl) the certificate is checked, by WEIR_TLS_CA if that is set.
package pt_online_schema_change_plugin;

use strict;
use warnings;
use HTTP::Tiny;
use Time::HiRes ();

use constant PAUSE_S => 0.25;    # between two questions

sub new {
    my ($class) = @_;
    my $url = $ENV{WEIR_CHECK}
        or die "set WEIR_CHECK, such as http://127.0.0.1:7380/check/pt-osc/mysql/main1\n";
    my %tls = $ENV{WEIR_TLS_CA} ? (SSL_options => { SSL_ca_file => $ENV{WEIR_TLS_CA} }) : ();
    my $self = bless { url => $url, http => HTTP::Tiny->new(timeout => 5, verify_SSL => 1, %tls) }, $class;
    my $status = $self->ask;
    die "weir: $url answers $status\n" if $status >= 400 && $status < 410;
    return $self;
}

# 200 goes on; 417 and 429 wait, and so do 500 (nobody knows the metric) and 599 (weir is away).
sub ask {
    my ($self) = @_;
    return $self->{http}->head($self->{url})->{status};
}

sub get_slave_lag {
    my ($self, %args) = @_;
    my $oktorun = $args{oktorun};
    return sub {
        my $told = 0;
        while ($$oktorun) {
            my $status = $self->ask;
            return 0 if $status == 200;
            print "weir refuses the next chunk ($status). Waiting.\n" if !$told++;
            Time::HiRes::sleep(PAUSE_S);
        }
        return 0;
    };
}

1;
