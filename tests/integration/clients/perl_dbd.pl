# Perl's DBD::MariaDB and DBD::mysql: what they see of the server at DB_HOST:DB_PORT.  The first
# argument is the driver.  See mysql_clients.py.
use strict;
use warnings;
use utf8;
use DBI qw(:sql_types);
use Digest::MD5 qw(md5_hex);
use List::Util qw(sum);

binmode STDOUT, ':utf8';
$| = 1;
my ($driver, $mode) = @ARGV;
my $p = $driver eq 'mysql' ? 'mysql' : 'mariadb';    # how its own attributes begin

sub connection {
    my %more = @_;
    my $options = "host=$ENV{DB_HOST};port=$ENV{DB_PORT};database=$ENV{DB_NAME}"
        . ";${p}_local_infile=1;${p}_multi_statements=1;${p}_server_prepare=" . ($more{prepared} // 0);
    return DBI->connect("DBI:$driver:$options", $ENV{DB_USER}, $ENV{DB_PASSWORD},
        { RaiseError => 1, PrintError => 0, AutoCommit => 1,
            $driver eq 'mysql' ? (mysql_enable_utf8mb4 => 1) : () });
}

sub say_fact { my ($fact, $value) = @_; print "$fact: $value\n" }
sub line { join '|', map { $_ // 'NULL' } @_ }
sub one { my ($db, $sql) = @_; return ($db->selectrow_array($sql))[0] }

sub failure {
    my ($db, $sql) = @_;
    eval { $db->do($sql); 1 } and return 'no error';
    return $db->err . ' ' . $db->state;
}

sub sets {
    my ($db, $sql) = @_;
    my @out;
    my $s = $db->prepare($sql);
    eval {
        $s->execute;
        while (1) {
            push @out, join "\n", map { line(@$_) } @{ $s->fetchall_arrayref } if $s->{NUM_OF_FIELDS};
            last unless $s->more_results;
        }
        1;
    } or push @out, $s->err;
    # A failure in the middle ends the list without an exception.
    push @out, $s->err if $s->err && $out[-1] ne $s->err;
    return join '/', @out;
}

sub statements {
    my ($db, $prepared) = @_;
    say_fact('text', line($db->selectrow_array("SELECT 1+1, 'héllo', NULL, ''")));
    my $s = $prepared->prepare('SELECT ? + 1, ?, ?');
    $s->bind_param(1, 41, SQL_INTEGER);
    $s->bind_param(2, "it's");
    $s->bind_param(3, undef);
    $s->execute;
    my @row = $s->fetchrow_array;
    $row[0] = int $row[0];
    say_fact('prepared', line(@row));
    for ([ $db, 'kinds' ], [ $prepared, 'kinds_prepared' ]) {
        my $row = $_->[0]->selectrow_arrayref('SELECT * FROM kinds');
        say_fact($_->[1], join ',', map { defined ? unpack 'H*', Encode::encode_utf8($_) : 'NULL' } @$row);
    }
    my $n = $db->do("INSERT INTO notes (body) VALUES ('first')");
    say_fact('new_row', "$n " . $db->last_insert_id(undef, undef, undef, undef));
    my $all = $db->selectcol_arrayref('SELECT seq FROM seq_1_to_1000');
    say_fact('many_rows', @$all . ' ' . sum(@$all));
    if ($p eq 'mysql') {    # DBD::MariaDB 1.22 loses all rows of a result that it does not store
        $s = $db->prepare('SELECT seq FROM seq_1_to_1000', { mysql_use_result => 1 });
        $s->execute;
        my ($count, $total) = (0, 0);
        while (my ($value) = $s->fetchrow_array) { $count++; $total += $value }
        say_fact('cursor', "$count $total");
    }
    say_fact('ping', $db->ping ? 'alive' : 'gone');
}

sub transactions {
    my ($db) = @_;
    my @counts;
    for my $end (qw(rollback commit)) {
        $db->begin_work;
        $db->do('INSERT INTO up VALUES (1)');
        $db->$end;
        push @counts, one($db, 'SELECT COUNT(*) FROM up');
    }
    say_fact('transaction', "@counts");
    $db->do($_) for 'BEGIN', 'SAVEPOINT a', 'INSERT INTO up VALUES (2)', 'ROLLBACK TO a', 'COMMIT';
    say_fact('savepoint', one($db, 'SELECT COUNT(*) FROM up'));
    $db->do('DELETE FROM up');
}

sub sizes {
    my ($db, $prepared) = @_;
    $prepared->prepare('INSERT INTO notes (body) VALUES (?)')->execute('x' x (1 << 20));
    $db->{LongReadLen} = 2 << 20;
    my $text = one($db, 'SELECT body FROM notes ORDER BY id DESC LIMIT 1');
    say_fact('big', length($text) . ' ' . md5_hex($text));
}

sub uploads {
    my ($db) = @_;
    my $load = "LOAD DATA LOCAL INFILE '$ENV{DB_FILES}/%s' INTO TABLE up";
    $db->do(sprintf $load, 'rows.tsv');
    say_fact('infile', join ' ', $db->selectrow_array('SELECT COUNT(*), SUM(n) FROM up'));
    $db->do('DELETE FROM up');
    $db->do(sprintf $load, 'empty.tsv');
    say_fact('infile_empty', one($db, 'SELECT COUNT(*) FROM up'));
}

sub several {
    my ($db) = @_;
    say_fact('call', sets($db, 'CALL two()'));
    my $own = connection();    # an error in the middle may leave results behind
    say_fact('multi_error', sets($own, 'SELECT 1; SELECT * FROM nothing; SELECT 3'));
    say_fact('errors', join ', ', map { failure($db, $_) } 'INSERT INTO counter VALUES (1, 1)', 'SELEKT',
        'SELECT * FROM nothing');
}

sub kills {
    my ($db) = @_;
    my $victim = connection();
    my $me = one($victim, 'SELECT CONNECTION_ID()');
    my $s = $victim->prepare('SELECT SLEEP(600)', { $p eq 'mysql' ? 'async' : 'mariadb_async', 1 });
    $s->execute;
    1 until one($db, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = $me AND INFO LIKE "
        . "'SELECT SLEEP%'");
    $db->do("KILL QUERY $me");
    my $result = "${p}_async_result";
    eval { $s->$result; $s->fetchrow_array; };
    say_fact('kill_query', $s->err . ' ' . $s->state . ', then ' . one($victim, 'SELECT 1'));
    $db->do("KILL $me");
    my $error = failure($victim, 'SELECT 1');
    say_fact('kill_connection', $error =~ /^20(06|13)/ ? 'gone' : "alive: $error");
}

# A transaction that is repeated until it is let through.
sub busy {
    my $db = connection(prepared => 1);
    my $s = $db->prepare('UPDATE counter SET n = n + ?');
    while (1) {
        $db->begin_work;
        last if eval { $s->execute(1); $db->commit; 1 };
        die $s->errstr if $s->err != 1213;
        print 'refused: ' . $s->err . ' ' . $s->state . ' ' . $s->errstr . "\n";
        $db->rollback;
    }
    print "done\n";
}

require Encode;
if ($mode eq 'busy') {
    busy();
    exit;
}
my ($db, $prepared) = (connection(), connection(prepared => 1));
$_->($db, $prepared) for \&statements, \&transactions, \&sizes, \&uploads, \&several, \&kills;
