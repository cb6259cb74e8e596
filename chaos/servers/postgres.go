package servers

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// Postgres is a PostgreSQL server: a private instance, or a given server on which Up has created a database.
type Postgres struct {
	// URL is the URL of an empty database. On a private instance, its user is a superuser.
	URL string

	instance
	admin    string // another database, from which to create and drop ours
	database string // our own database
	data     string // directory; empty for a given server and in a container
}

// privatePostgres returns a private instance that is not running yet.
func privatePostgres(admin, data string, launch func(context.Context) (server, error), log func() string) *Postgres {
	p := &Postgres{admin: admin, data: data, instance: instance{name: "PostgreSQL", launch: launch, log: log, stopSignal: sigInt}}
	p.probe = p.probeServer
	return p
}

// DB is one database on a server.
type DB struct {
	URL    string
	Name   string
	Server *Postgres
}

// CreateDatabase creates an empty database with a unique name, in about 0.1 s.
func (p *Postgres) CreateDatabase(ctx context.Context) (*DB, error) {
	db := &DB{Name: uniqueName(), Server: p}
	var err error
	if db.URL, err = withDatabase(p.admin, db.Name); err != nil {
		return nil, err
	}
	return db, p.execSQL(ctx, "CREATE DATABASE "+pgx.Identifier{db.Name}.Sanitize())
}

// Drop removes the database, even if clients are still connected.
func (d *DB) Drop(ctx context.Context) error {
	return d.Server.execSQL(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{d.Name}.Sanitize()+" WITH (FORCE)")
}

func (p *Postgres) execSQL(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, p.admin)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(ctx))
}

// probeServer succeeds if our own server answers. Another server may have taken the port first.
func (p *Postgres) probeServer(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, p.admin)
	if err != nil {
		return err
	}
	var data string
	err = conn.QueryRow(ctx, "SHOW data_directory").Scan(&data)
	if err == nil && p.data != "" && data != p.data {
		err = errStranger
	}
	return errors.Join(err, conn.Close(ctx))
}

func (p *Postgres) close() error {
	if p.Private() {
		return p.Stop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanupWithin)
	defer cancel()
	return (&DB{Name: p.database, Server: p}).Drop(ctx)
}

// startPostgres creates a database cluster, or reuses the kept cluster, and starts its server. Every user of
// this machine may connect as its superuser (it listens on loopback only), so use it only for test data.
func startPostgres(ctx context.Context, b *postgresBinaries, dir *workDir, g *guard, log *lineLog) (p *Postgres, err error) {
	fail := func(err error) (*Postgres, error) { return nil, &StartError{Component: "PostgreSQL", Err: err} }
	who, err := serverAccount("postgres", "nobody")
	if err != nil {
		return fail(err)
	}
	was, err := dir.loadKept("postgres")
	if err != nil {
		return fail(err)
	}
	home := filepath.Join(dir.path, "postgres")
	data := filepath.Join(home, "data")
	env := serverEnv(home)
	if was == nil {
		if err := createCluster(ctx, b, home, data, env, who); err != nil {
			return fail(err)
		}
	}
	err = startServer(ctx, "PostgreSQL", log, func(n int) (*attempt, error) {
		ports, err := was.attemptPorts(n, 1)
		if err != nil {
			return nil, err
		}
		address := loopbackAddress(ports[0])
		server := &program{
			name: "PostgreSQL", path: b.postgres, env: env, dir: home, user: who,
			log: filepath.Join(dir.path, "postgres.log"),
			args: append([]string{
				"-D", data, "-p", strconv.Itoa(ports[0]),
				"-c", "listen_addresses=127.0.0.1",
				"-c", "unix_socket_directories=", // a path in our directory may exceed the limit on the length of socket paths
			}, postgresSettings()...),
		}
		p = privatePostgres("postgres://handoff@"+address+"/postgres?sslmode=disable", data, childLauncher(server, g), server.logPath)
		open := func(ctx context.Context) error { return p.openDatabase(ctx, dir, was, ports) }
		return &attempt{start: p.Start, open: open, close: p.close, what: "private instance of " + filepath.Dir(b.postgres), address: address}, nil
	})
	return p, err
}

// createCluster creates the directory of an empty database cluster.
func createCluster(ctx context.Context, b *postgresBinaries, home, data string, env []string, who *account) error {
	if err := errors.Join(os.Mkdir(home, 0o700), who.takeOwnership(home)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	// --no-sync skips only the flush of the empty cluster; the server itself runs with fsync on.
	_, err := runCommand(ctx, &program{
		path: b.initdb, env: env, dir: home, user: who,
		args: []string{"-D", data, "-U", "handoff", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"},
	})
	return err
}

// openDatabase opens the kept database, or creates an empty one.
func (p *Postgres) openDatabase(ctx context.Context, dir *workDir, was *keptServer, ports []int) (err error) {
	if was == nil {
		err = p.openEmpty(ctx)
	} else {
		p.database = was.Name
		p.URL, err = withDatabase(p.admin, was.Name)
	}
	if err != nil {
		return err
	}
	return dir.saveKept("postgres", keptServer{Ports: ports, Name: p.database})
}

// openEmpty creates the database to which URL leads.
func (p *Postgres) openEmpty(ctx context.Context) error {
	db, err := p.CreateDatabase(ctx)
	if err == nil {
		p.URL, p.database = db.URL, db.Name
	}
	return err
}

// postgresSettings returns the settings that differ from PostgreSQL's defaults for every server started here.
func postgresSettings() []string {
	return []string{"-c", "max_connections=400", "-c", "log_line_prefix=%m [%p] %d "}
}

// serverEnv returns the whole environment of servers and their commands. Variables such as PGPORT or
// RABBITMQ_NODENAME, which are for other servers, must not reach them.
func serverEnv(home string, more ...string) []string {
	path := os.Getenv("PATH")
	if path == "" {
		path = "/usr/local/bin:/usr/bin:/bin"
	}
	return append([]string{"PATH=" + path, "HOME=" + home, "TMPDIR=" + home, "LANG=C.UTF-8", "LC_ALL=C.UTF-8"}, more...)
}
