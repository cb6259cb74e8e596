package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/core/config"
	"handoff/core/config/yamlfile"
	"handoff/migrations"
)

const migrateHelp = `executor migrate: looks after the database's schema.

Usage:
  executor migrate up                 apply every migration that the database lacks
  executor migrate down --to N        take back every migration above N, newest first; 0 takes all back
  executor migrate status             list the migrations, and what the database has

The database is that of the configuration: --config FILE, or HANDOFF_DATABASE_URL. Nothing else of the
configuration is needed. Stop executors and workers before you take something back.

Exit codes: 0 done, or the schema is current; 1 it failed, or the schema is behind or ahead of this
program; 2 bad usage or bad configuration.
`

// noBroker stands in for the broker's address, which this command does not need.
const noBroker = "HANDOFF_MESSAGE_QUEUE_RABBITMQ_URL=amqp://127.0.0.1/"

// connectWithin bounds the attempt to connect.
const connectWithin = 10 * time.Second

// migrator is one call of `executor migrate`.
type migrator struct {
	conn           *pgx.Conn
	stdout, stderr io.Writer
	// to is the version that down reverts to, -1 if not given.
	to int64
}

// runMigrate executes `executor migrate`; it returns the exit code.
func runMigrate(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	usage := func(format string, values ...any) int {
		fmt.Fprintf(stderr, "executor migrate: "+format+"\n\n", values...)
		fmt.Fprint(stderr, migrateHelp)
		return exitBadConfig
	}
	if len(args) == 0 {
		return usage("say what to do: up, down or status")
	}
	m := &migrator{stdout: stdout, stderr: stderr, to: -1}
	var do func(context.Context) int
	switch args[0] {
	case "up":
		do = m.migrateUp
	case "down":
		do = m.migrateDown
	case "status":
		do = m.printStatus
	case "--help", "-h", "help":
		fmt.Fprint(stdout, migrateHelp)
		return exitStopped
	default:
		p := yamlfile.Problem{Message: fmt.Sprintf("unknown command %q", args[0]), Allowed: []string{"up", "down", "status"}}
		p.Nearest = yamlfile.Nearest(args[0], p.Allowed)
		return usage("%s", p.Text())
	}
	rest, err := m.takeTo(args[1:])
	if err == nil && m.to >= 0 && args[0] != "down" {
		err = fmt.Errorf("--to belongs to down, not to %s", args[0])
	}
	if err != nil {
		return usage("%v", err)
	}
	command := config.Command{Name: "executor migrate " + args[0]}
	parsed := command.Parse(rest, environ)
	if parsed.Effective != nil && parsed.Deployment.MessageQueue.RabbitMQ.URL == "" {
		parsed = command.Parse(rest, append(slices.Clone(environ), noBroker))
	}
	if parsed.Help != "" {
		fmt.Fprint(stdout, migrateHelp)
		return exitStopped
	}
	if code, done := parsed.Answer(command.Name, stdout, stderr); done {
		return code
	}
	within, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	if m.conn, err = pgx.Connect(within, parsed.Deployment.Database.URL); err != nil {
		return m.reportFailure(err)
	}
	defer func() { _ = m.conn.Close(context.WithoutCancel(ctx)) }()
	fmt.Fprintf(stdout, "database %s\n\n", config.MaskURL(parsed.Deployment.Database.URL))
	return do(ctx)
}

// takeTo removes --to N from the arguments, and sets to.
func (m *migrator) takeTo(args []string) (rest []string, err error) {
	for i := 0; i < len(args); i++ {
		value, found := strings.CutPrefix(args[i], "--to=")
		if args[i] == "--to" {
			if i++; i == len(args) {
				return nil, errors.New("--to needs a number: the version to revert to, or 0 to revert everything")
			}
			value, found = args[i], true
		}
		if !found {
			rest = append(rest, args[i])
			continue
		}
		if m.to, err = strconv.ParseInt(value, 10, 64); err != nil || m.to < 0 {
			return nil, fmt.Errorf("--to %q is not a version: use a whole number from 0", yamlfile.Cut(value))
		}
	}
	return rest, nil
}

func (m *migrator) reportFailure(err error) int {
	fmt.Fprintf(m.stderr, "executor migrate: %v\n", err)
	return exitFailed
}

// migrateUp applies the migrations that were not applied to the database yet.
func (m *migrator) migrateUp(ctx context.Context) int {
	before, err := migrations.Status(ctx, m.conn)
	if err == nil {
		err = migrations.Up(ctx, m.conn)
	}
	if err != nil {
		return m.reportFailure(err)
	}
	applied := 0
	for i := range before {
		if v := &before[i]; v.Known() && v.Applied.IsZero() {
			fmt.Fprintf(m.stdout, "applied %d %s\n", v.Number, v.Name)
			applied++
		}
	}
	if applied == 0 {
		fmt.Fprint(m.stdout, "Nothing to do: ")
	} else {
		fmt.Fprint(m.stdout, "Done: ")
	}
	fmt.Fprintf(m.stdout, "the schema is current, at version %d.\n", before[len(before)-1].Number)
	return exitStopped
}

// migrateDown reverts the migrations above the given version.
func (m *migrator) migrateDown(ctx context.Context) int {
	versions, err := migrations.Status(ctx, m.conn)
	if err != nil {
		return m.reportFailure(err)
	}
	var back []migrations.Version
	for _, v := range slices.Backward(versions) {
		if !v.Applied.IsZero() && v.Number > m.to {
			back = append(back, v)
		}
	}
	switch latest := versions[len(versions)-1].Number; {
	case m.to < 0:
		fmt.Fprintln(m.stderr, "executor migrate down: say how far with --to N: every migration above N is taken back, newest first.")
		if len(back) > 0 {
			fmt.Fprintln(m.stderr, "What they brought is dropped, with everything that is stored there:")
			m.printLosses(m.stderr, back)
		}
		return exitBadConfig
	case m.to > latest:
		fmt.Fprintf(m.stderr, "executor migrate down: --to %d is above the latest version, %d\n", m.to, latest)
		return exitBadConfig
	case len(back) == 0:
		fmt.Fprintf(m.stdout, "Nothing to do: nothing above version %d is applied.\n", m.to)
		return exitStopped
	}
	if err := migrations.Down(ctx, m.conn, m.to); err != nil {
		return m.reportFailure(err)
	}
	fmt.Fprintln(m.stdout, "Taken back, with everything that was stored there:")
	m.printLosses(m.stdout, back)
	fmt.Fprintf(m.stdout, "Done: the schema is at version %d. An executor that starts with database.migrate: true applies them again.\n", m.to)
	return exitStopped
}

// printLosses lists migrations, each with the tables and columns that reverting it drops.
func (m *migrator) printLosses(w io.Writer, back []migrations.Version) {
	for i := range back {
		v := &back[i]
		lost := "no table and no column"
		switch {
		case !v.Known():
			v.Name, lost = "unknown", "only the program that applied it knows what"
		case len(v.Loses) > 0:
			lost = strings.Join(v.Loses, ", ")
		}
		fmt.Fprintf(w, "  %3d  %-24s %s\n", v.Number, v.Name, lost)
	}
}

// printStatus lists the versions, and reports whether they match this program.
func (m *migrator) printStatus(ctx context.Context) int {
	versions, err := migrations.Status(ctx, m.conn)
	if err != nil {
		return m.reportFailure(err)
	}
	behind, ahead := 0, 0
	fmt.Fprintln(m.stdout, "version  name                     applied")
	for i := range versions {
		v := &versions[i]
		name, applied := v.Name, "not yet"
		if !v.Applied.IsZero() {
			applied = v.Applied.UTC().Format("2006-01-02 15:04:05 UTC")
		} else {
			behind++
		}
		if !v.Known() {
			name = "unknown to this program"
			ahead++
		}
		fmt.Fprintf(m.stdout, "%7d  %-24s %s\n", v.Number, name, applied)
	}
	fmt.Fprintln(m.stdout)
	switch {
	case ahead > 0:
		fmt.Fprintf(m.stdout, "The schema is ahead: %s unknown to this program. Start a newer program.\n", countPhrase(ahead))
	case behind > 0:
		fmt.Fprintf(m.stdout, "The schema is behind: %s not applied. `executor migrate up` applies what is missing.\n", countPhrase(behind))
	default:
		fmt.Fprintln(m.stdout, "The schema is current.")
		return exitStopped
	}
	return exitFailed
}

func countPhrase(n int) string {
	if n == 1 {
		return "1 migration is"
	}
	return fmt.Sprintf("%d migrations are", n)
}
