package live

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/fault"
)

// The daemons of a run log in with a separate role. The role has every right on the run's database but is not
// a superuser, so PostgreSQL's limits for applications apply to the daemons and not to the harness. Roles
// belong to the whole server, so each run has its own.

// daemonRole returns the name of the daemons' role.
func (w *world) daemonRole() string { return w.db.Name + "_daemons" }

// daemonsURL returns the database's address for the daemons' role, not through a link.
func (w *world) daemonsURL() (string, error) {
	u, err := url.Parse(w.db.URL)
	if err != nil {
		return "", fmt.Errorf("the database's address: %w", err)
	}
	if password, ok := u.User.Password(); ok {
		u.User = url.UserPassword(w.daemonRole(), password)
	} else {
		u.User = url.User(w.daemonRole())
	}
	return u.String(), nil
}

// makeRole creates the daemons' role as a member of the harness's role. It inherits the rights on tables, but
// not the superuser attribute.
func (w *world) makeRole(ctx context.Context) error {
	return withConnection(ctx, w.db.URL, func(ctx context.Context, conn *pgx.Conn) error {
		login := ""
		if password := conn.Config().Password; password != "" {
			login = " password " + quoteLiteral(password)
		}
		_, err := conn.Exec(ctx, fmt.Sprintf("create role %s login%s in role %s", quoteIdentifier(w.daemonRole()), login, quoteIdentifier(conn.Config().User)))
		if err != nil {
			return fmt.Errorf("making the daemons' role: %w", err)
		}
		return nil
	})
}

// dropRole drops the daemons' role. The role's database must have been dropped before.
func (w *world) dropRole(ctx context.Context) error {
	return withConnection(ctx, w.db.Server.URL, func(ctx context.Context, conn *pgx.Conn) error {
		return executeAll(ctx, conn, "drop role if exists "+quoteIdentifier(w.daemonRole()))
	})
}

func quoteIdentifier(name string) string { return pgx.Identifier{name}.Sanitize() }

func quoteLiteral(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// fullTables selects the tables that a full disk affects: all of the run's tables except the harness's own.
const fullTables = `select c.oid::regclass as name from pg_class c
    where c.relkind in ('r', 'p') and c.relnamespace = current_schema()::regnamespace and not starts_with(c.relname, 'chaos_')
    order by 1`

// eachFullTable returns a statement that executes another one for every table of fullTables, each in its own
// transaction: a transaction that locks several tables would soon deadlock with the daemons.
func eachFullTable(statement string) string {
	return fmt.Sprintf(`do $do$
declare t record;
begin
    for t in %s loop
        execute format(%s, t.name);
        commit;
    end loop;
end
$do$`, fullTables, quoteLiteral(statement))
}

// FillDatabase implements fault.DatabaseFull: the database refuses every writing statement as PostgreSQL does
// when its disk is full (SQLSTATE 53100). Reads still work. It affects connections with an application_name:
// those of the daemons and of the workload. The harness's own connections have none. A sequence counts the
// refused statements, because a rollback doesn't undo it. When the fault ends, the count shows whether it
// touched something.
//
// It uses triggers instead of a full disk: a tablespace of a few pages needs its own file system, which only
// root can create. A disk without room for the write-ahead log is a different fault: it ends the server.
func (w *world) FillDatabase(x *fault.Injection) (end func(), err error) {
	err = w.execSQL("create sequence chaos_full_refusals", `create function chaos_full() returns trigger language plpgsql as $$
begin
    if current_setting('application_name') <> '' then
        perform nextval('chaos_full_refusals');
        raise exception 'could not extend file of relation "%": No space left on device', tg_table_name
            using errcode = 'disk_full', hint = 'Check free disk space.';
    end if;
    return null;
end
$$`, eachFullTable("create trigger chaos_full before insert or update or delete on %s for each statement execute function chaos_full()"))
	if err != nil {
		return nil, err
	}
	return func() {
		refused, err := w.isSequenceUsed("chaos_full_refusals")
		if err != nil {
			x.Fail(fmt.Errorf("counting the writes that a full disk refused: %w", err))
		}
		if refused {
			x.Touch(fault.Touched{Process: fault.Database})
		}
		x.Fail(w.execSQL(eachFullTable("drop trigger if exists chaos_full on %s"), "drop function chaos_full", "drop sequence chaos_full_refusals"))
	}, nil
}

// DemoteDatabase implements fault.DatabaseDemotion. Every existing session becomes read-only (25006). New
// sessions don't, because the database's own setting, which a session reads when it begins, has priority over
// the server's. So the one server plays both the old primary, for existing connections, and the new primary,
// for later ones. At the end the existing connections are closed. The harness only reads over its long-lived
// sessions.
func (w *world) DemoteDatabase(x *fault.Injection) (end func(), err error) {
	on := "alter database " + quoteIdentifier(w.db.Name)
	before, err := w.demoteSessions(on)
	if err != nil {
		return nil, err
	}
	x.Touch(fault.Touched{Process: fault.Database})
	return func() {
		x.Fail(w.execSQL("alter system reset default_transaction_read_only", on+" reset default_transaction_read_only", "select pg_reload_conf()",
			fmt.Sprintf("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s and application_name <> '' and backend_start <= %s",
				quoteLiteral(w.db.Name), quoteLiteral(before.Format(time.RFC3339Nano)))))
	}, nil
}

// demoteSessions makes existing sessions read-only, and waits until they have all read the new setting. It
// returns the database's time at the beginning.
func (w *world) demoteSessions(alterDatabase string) (before time.Time, err error) {
	err = w.onDatabase(func(ctx context.Context, conn *pgx.Conn) error {
		err := executeAll(ctx, conn, alterDatabase+" set default_transaction_read_only = off", "alter system set default_transaction_read_only = on")
		if err != nil {
			return err
		}
		if err := conn.QueryRow(ctx, "select clock_timestamp() from pg_reload_conf()").Scan(&before); err != nil {
			return fmt.Errorf("reloading the server's settings: %w", err)
		}
		for readOnly := ""; readOnly != "on"; { // the server signals its sessions, which take some time to react
			if err := conn.QueryRow(ctx, "select current_setting('default_transaction_read_only') from pg_sleep(0.01)").Scan(&readOnly); err != nil {
				return fmt.Errorf("waiting for sessions to be read-only: %w", err)
			}
		}
		return nil
	})
	return before, err
}

// isSequenceUsed reports whether a sequence has ever returned a value.
func (w *world) isSequenceUsed(sequence string) (called bool, err error) {
	w.down.database.Lock() // waits while the server is down
	defer w.down.database.Unlock()
	ctx, cancel := w.serverContext()
	defer cancel()
	err = w.pool.QueryRow(ctx, "select is_called from "+sequence).Scan(&called)
	return called, err
}

// RefuseConnections implements fault.DatabaseConnections: the server refuses every new connection of the
// daemons (FATAL, SQLSTATE 53300). Existing connections still work. It uses the server's connection limit of
// the daemons' role, so it outlasts a restart of the server. The harness and the workload have another role.
// When the fault ends, the server's log shows whether it refused a connection, and so whether the fault
// touched something.
func (w *world) RefuseConnections(x *fault.Injection) (end func(), err error) {
	before, err := w.refusedConnections()
	if err != nil {
		return nil, err
	}
	if err := w.execSQL(fmt.Sprintf("alter role %s connection limit 0", quoteIdentifier(w.daemonRole()))); err != nil {
		return nil, err
	}
	return func() {
		x.Fail(w.execSQL(fmt.Sprintf("alter role %s connection limit -1", quoteIdentifier(w.daemonRole()))))
		after, err := w.refusedConnections()
		x.Fail(err)
		if after > before {
			x.Touch(fault.Touched{Process: fault.Database})
		}
	}, nil
}

// refusedConnections counts the daemons' refused connections so far in the server's log. Nothing else records
// them.
func (w *world) refusedConnections() (int, error) {
	path := w.db.Server.Log()
	log, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("counting refused connections in the database's log: %w", err)
	}
	return bytes.Count(log, []byte(`too many connections for role "`+w.daemonRole()+`"`)), nil
}
