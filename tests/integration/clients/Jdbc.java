// MariaDB Connector/J of Debian: what it sees of the server at DB_HOST:DB_PORT.  See mysql_clients.py.
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.SQLTransactionRollbackException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

public class Jdbc {
    static final String USER = System.getenv("DB_USER"), PASSWORD = System.getenv("DB_PASSWORD");

    static Connection connect(String options) throws SQLException {
        return DriverManager.getConnection("jdbc:mariadb://" + System.getenv("DB_HOST") + ":"
            + System.getenv("DB_PORT") + "/" + System.getenv("DB_NAME")
            + "?allowMultiQueries=true&allowLocalInfile=true&connectionAttributes=program_name:jdbc-test"
            + options, USER, PASSWORD);
    }

    static void say(String fact, Object value) {
        System.out.println(fact + ": " + value);
    }

    static String row(ResultSet r) throws SQLException {
        List<String> cells = new ArrayList<>();
        for (int i = 1; i <= r.getMetaData().getColumnCount(); i++) {
            Object value = r.getObject(i);
            if (value instanceof byte[]) {
                value = Arrays.toString((byte[]) value);
            }
            cells.add(value == null ? "NULL" : value.toString());
        }
        return String.join("|", cells);
    }

    static String one(Connection db, String sql) throws SQLException {
        try (Statement s = db.createStatement(); ResultSet r = s.executeQuery(sql)) {
            r.next();
            return row(r);
        }
    }

    static void run(Connection db, String sql) throws SQLException {
        try (Statement s = db.createStatement()) {
            s.execute(sql);
        }
    }

    static String failure(Connection db, String sql) {
        try {
            run(db, sql);
        } catch (SQLException e) {
            return e.getErrorCode() + " " + e.getSQLState();
        }
        return "no error";
    }

    static String sets(Connection db, String sql) throws SQLException {
        List<String> out = new ArrayList<>();
        try (Statement s = db.createStatement()) {
            try {
                boolean isRows = s.execute(sql);
                while (isRows || s.getUpdateCount() != -1) {
                    if (isRows) {
                        ResultSet r = s.getResultSet();
                        while (r.next()) {
                            out.add(row(r));
                        }
                    }
                    isRows = s.getMoreResults();
                }
            } catch (SQLException e) {
                // Connector/J reads all results first, and then tells the error alone.
                out.add("1");
                out.add(String.valueOf(e.getErrorCode()));
            }
        }
        return String.join("/", out);
    }

    static String sum(ResultSet r) throws SQLException {
        long n = 0, sum = 0;
        while (r.next()) {
            n++;
            sum += r.getLong(1);
        }
        return n + " " + sum;
    }

    static void statements(Connection db) throws Exception {
        say("text", one(db, "SELECT 1+1, 'h\u00e9llo', NULL, ''"));
        say("kinds", one(db, "SELECT * FROM kinds"));
        try (Connection prepared = connect("&useServerPrepStmts=true&useBulkStmts=true")) {
            PreparedStatement s = prepared.prepareStatement("SELECT ? + 1, ?, ?");
            s.setInt(1, 41);
            s.setString(2, "it's");
            s.setNull(3, java.sql.Types.VARCHAR);
            ResultSet r = s.executeQuery();
            r.next();
            say("prepared", row(r));
            r = prepared.prepareStatement("SELECT * FROM kinds").executeQuery();
            r.next();
            say("kinds_prepared", row(r));
            s = prepared.prepareStatement("INSERT INTO up VALUES (?)");
            for (int i = 1; i <= 100; i++) {
                s.setInt(1, i);
                s.addBatch();
            }
            s.executeBatch();
            say("bulk", one(db, "SELECT COUNT(*), SUM(n) FROM up").replace('|', ' '));
            run(db, "DELETE FROM up");
        }
        try (PreparedStatement s = db.prepareStatement("INSERT INTO notes (body) VALUES (?)",
                Statement.RETURN_GENERATED_KEYS)) {
            s.setString(1, "first");
            int n = s.executeUpdate();
            ResultSet keys = s.getGeneratedKeys();
            keys.next();
            say("new_row", n + " " + keys.getInt(1));
        }
        try (Statement s = db.createStatement()) {
            say("many_rows", sum(s.executeQuery("SELECT seq FROM seq_1_to_1000")));
            s.setFetchSize(10);
            say("cursor", sum(s.executeQuery("SELECT seq FROM seq_1_to_1000")));
        }
        say("ping", db.isValid(60) ? "alive" : "gone");
    }

    static void transactions(Connection db) throws SQLException {
        List<String> counts = new ArrayList<>();
        db.setAutoCommit(false);
        run(db, "INSERT INTO up VALUES (1)");
        db.rollback();
        counts.add(one(db, "SELECT COUNT(*) FROM up"));
        run(db, "INSERT INTO up VALUES (1)");
        db.commit();
        counts.add(one(db, "SELECT COUNT(*) FROM up"));
        say("transaction", String.join(" ", counts));
        Savepoint a = db.setSavepoint("a");
        run(db, "INSERT INTO up VALUES (2)");
        db.rollback(a);
        db.commit();
        db.setAutoCommit(true);
        say("savepoint", one(db, "SELECT COUNT(*) FROM up"));
        run(db, "DELETE FROM up");
    }

    static void sizes(Connection db) throws Exception {
        try (PreparedStatement s = db.prepareStatement("INSERT INTO notes (body) VALUES (?)")) {
            s.setString(1, "x".repeat(1 << 20));
            s.execute();
        }
        String text = one(db, "SELECT body FROM notes ORDER BY id DESC LIMIT 1");
        byte[] md5 = MessageDigest.getInstance("MD5").digest(text.getBytes(StandardCharsets.UTF_8));
        say("big", text.length() + " " + String.format("%032x", new BigInteger(1, md5)));
    }

    static void uploads(Connection db) throws SQLException {
        String load = "LOAD DATA LOCAL INFILE '" + System.getenv("DB_FILES") + "/%s' INTO TABLE up";
        run(db, String.format(load, "rows.tsv"));
        say("infile", one(db, "SELECT COUNT(*), SUM(n) FROM up").replace('|', ' '));
        run(db, "DELETE FROM up");
        run(db, String.format(load, "empty.tsv"));
        say("infile_empty", one(db, "SELECT COUNT(*) FROM up"));
    }

    static void several(Connection db) throws SQLException {
        say("multi", sets(db, "SELECT 1; SELECT 2, 3; SET @a = 4; SELECT @a"));
        say("multi_error", sets(db, "SELECT 1; SELECT * FROM nothing; SELECT 3"));
        say("call", sets(db, "CALL two()"));
        List<String> errors = new ArrayList<>();
        for (String sql : List.of("INSERT INTO counter VALUES (1, 1)", "SELEKT", "SELECT * FROM nothing")) {
            errors.add(failure(db, sql));
        }
        say("errors", String.join(", ", errors));
    }

    static void kills(Connection db) throws Exception {
        Connection victim = connect("");
        String me = one(victim, "SELECT CONNECTION_ID()");
        String[] got = new String[1];
        Thread sleeper = new Thread(() -> got[0] = failure(victim, "SELECT SLEEP(600)"));
        sleeper.start();
        awaitSleep(db, me);
        run(db, "KILL QUERY " + me);
        sleeper.join();
        say("kill_query", got[0] + ", then " + one(victim, "SELECT 1"));
        Statement s = victim.createStatement();
        sleeper = new Thread(() -> {
            try {
                s.execute("SELECT SLEEP(601)");
            } catch (SQLException e) {
                got[0] = e.getErrorCode() + " " + e.getSQLState();
            }
        });
        sleeper.start();
        awaitSleep(db, me);
        s.cancel(); // opens a connection of its own, which sends KILL QUERY
        sleeper.join();
        say("cancel", got[0] + ", then " + one(victim, "SELECT 1"));
        run(db, "KILL " + me);
        String error = failure(victim, "SELECT 1");
        say("kill_connection", error.endsWith(" 08000") || error.endsWith(" 08S01") || error.endsWith("70100")
            ? "gone" : "alive: " + error);
    }

    static void awaitSleep(Connection db, String id) throws SQLException {
        String sql = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = " + id
            + " AND INFO LIKE 'SELECT SLEEP%'";
        while (one(db, sql).equals("0")) {
            Thread.onSpinWait();
        }
    }

    // A transaction that is repeated until it is let through.
    static void busy() throws SQLException {
        try (Connection db = connect("&useServerPrepStmts=true")) {
            PreparedStatement s = db.prepareStatement("UPDATE counter SET n = n + ?");
            db.setAutoCommit(false);
            for (;;) {
                try {
                    s.setInt(1, 1);
                    s.executeUpdate();
                    db.commit();
                    break;
                } catch (SQLTransactionRollbackException e) {
                    // Its text begins with the number of the connection, "(conn=5) ".
                    say("refused", e.getErrorCode() + " " + e.getSQLState() + " "
                        + e.getMessage().replaceFirst("^\\(conn=\\d+\\) ", ""));
                    db.rollback();
                }
            }
            System.out.println("done");
        }
    }

    public static void main(String[] args) throws Exception {
        System.setOut(new java.io.PrintStream(System.out, true, StandardCharsets.UTF_8));
        if (args[0].equals("busy")) {
            busy();
            return;
        }
        try (Connection db = connect("")) {
            statements(db);
            transactions(db);
            sizes(db);
            uploads(db);
            several(db);
            kills(db);
        }
    }
}
