package live

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/common/expfmt"

	"handoff/chaos/live/evidence"
	"handoff/chaos/soak"
)

// sampler records the curves of a soak. It bypasses the links, because monitoring must not break with the
// system.
type sampler struct {
	x      *soakRun
	client *http.Client
	conn   *pgx.Conn
	broker *url.Userinfo

	mu   sync.Mutex
	all  []*soak.Series
	by   map[string]*soak.Series
	pids map[string]int
	last struct {
		at              time.Time
		ended, accepted int
	}
}

const (
	sampleEvery  = time.Second
	serversEvery = 5 * time.Second
	// sampledWithin limits one query.
	sampledWithin = 3 * time.Second
)

// The curves' slacks: the growth that is always allowed, in the unit of each figure.
const (
	slackRSS      = 16 << 20
	slackHeap     = 8 << 20
	slackFiles    = 12
	slackRoutines = 20
	slackHarness  = 64 << 20
	slackBroker   = 64 << 20
	slackQueue    = 200
)

func newSampler(x *soakRun) *sampler {
	s := &sampler{x: x, client: &http.Client{Timeout: sampledWithin, Transport: &http.Transport{DisableKeepAlives: true}}, by: make(map[string]*soak.Series), pids: make(map[string]int)}
	if u, err := url.Parse(x.w.mq.URL); err == nil {
		s.broker = u.User
	}
	s.last.at = time.Now()
	return s
}

// addSample adds a sample to the curve with this name and subject, which it creates if necessary.
func (s *sampler) addSample(name, of, unit string, rule soak.Rule, slack, value float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := name + "/" + of
	c := s.by[key]
	if c == nil {
		c = &soak.Series{Name: name, Of: of, Unit: unit, Rule: rule, Slack: slack}
		s.by[key], s.all = c, append(s.all, c)
	}
	c.Add(s.x.w.scenarioClock().Now(), value)
}

// sampleUntilDone samples until ctx ends.
func (s *sampler) sampleUntilDone(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	defer func() {
		if s.conn != nil {
			_ = s.conn.Close(context.WithoutCancel(ctx))
		}
	}()
	var servers time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, p := range s.x.w.allProcesses() {
			s.sampleProcess(ctx, p)
		}
		s.sampleHarness()
		if time.Since(servers) < serversEvery {
			continue
		}
		servers = time.Now()
		s.sampleDatabase(ctx)
		s.sampleBroker(ctx)
		s.sampleFiles()
	}
}

// sampleProcess samples a daemon. A paused daemon keeps its resources, but doesn't answer.
func (s *sampler) sampleProcess(ctx context.Context, p *process) {
	running, ok := p.daemon.Instance().(interface{ PID() int })
	if !ok || !p.isAlive() {
		return
	}
	pid := running.PID()
	if s.pids[p.name] != pid {
		s.pids[p.name] = pid
		s.noteRestart(p.name)
	}
	if rss, files, sockets, ok := processResources(pid); ok {
		s.addSample("memory (RSS)", p.name, "bytes", soak.Flat, slackRSS, rss)
		s.addSample("file descriptors", p.name, "", soak.Flat, slackFiles, files)
		s.addSample("connections", p.name, "", soak.Flat, slackFiles, sockets)
	}
	if p.pauses.Load() > 0 {
		return
	}
	figures, err := s.fetchFigures(ctx, p.daemon.URL+"/metrics", "go_goroutines", "go_memstats_heap_inuse_bytes")
	if err != nil {
		return
	}
	s.addSample("goroutines", p.name, "", soak.Flat, slackRoutines, figures["go_goroutines"])
	s.addSample("heap", p.name, "bytes", soak.Flat, slackHeap, figures["go_memstats_heap_inuse_bytes"])
}

// noteRestart records a restart of a process in its curves.
func (s *sampler) noteRestart(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.all {
		if c.Of == name {
			c.Starts = append(c.Starts, s.x.w.scenarioClock().Now())
		}
	}
}

// processResources reads the resources of a process: resident memory in bytes, and the numbers of files and
// sockets.
func processResources(pid int) (rss, files, sockets float64, ok bool) {
	proc := "/proc/" + strconv.Itoa(pid)
	statm, err := os.ReadFile(filepath.Join(proc, "statm"))
	if err != nil {
		return 0, 0, 0, false
	}
	fields := strings.Fields(string(statm))
	if len(fields) < 2 {
		return 0, 0, 0, false
	}
	pages, err := strconv.ParseFloat(fields[1], 64)
	if err != nil {
		return 0, 0, 0, false
	}
	entries, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		return 0, 0, 0, false
	}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(proc, "fd", e.Name())); err == nil && strings.HasPrefix(to, "socket:") {
			sockets++
		}
	}
	return pages * float64(os.Getpagesize()), float64(len(entries)), sockets, true
}

// fetchFigures reads gauges of a daemon's Go runtime from its metrics page.
func (s *sampler) fetchFigures(ctx context.Context, address string, names ...string) (map[string]float64, error) {
	page, err := fetchPage(ctx, s.client, address)
	if err != nil {
		return nil, err
	}
	var parser expfmt.TextParser
	families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		return nil, err
	}
	found := make(map[string]float64)
	for _, name := range names {
		for _, m := range families[name].GetMetric() {
			found[name] = m.GetGauge().GetValue()
		}
	}
	return found, nil
}

// sampleHarness samples this process, to show that the judge doesn't keep the history in memory.
func (s *sampler) sampleHarness() {
	if rss, files, _, ok := processResources(os.Getpid()); ok {
		s.addSample("memory (RSS)", "the harness", "bytes", soak.Flat, slackHarness, rss)
		s.addSample("file descriptors", "the harness", "", soak.Flat, slackFiles*4, files)
	}
}

// openCurve and queuedCurve name the curves that grow with the load while a server is down.
const (
	openCurve   = "open executions"
	queuedCurve = "messages in queues"
	ofLoad      = "the load"
)

// evidenceTable is the table into which the evidence triggers write.
const evidenceTable = "chaos_evidence"

// sampleDatabase samples the tables' sizes and rows, and the connections.
func (s *sampler) sampleDatabase(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sampledWithin)
	defer cancel()
	err := s.askDatabase(ctx)
	if err != nil && s.conn != nil {
		_ = s.conn.Close(context.WithoutCancel(ctx))
		s.conn = nil
	}
}

func (s *sampler) askDatabase(ctx context.Context) (err error) {
	if s.conn == nil {
		if s.conn, err = pgx.Connect(ctx, s.x.w.db.URL); err != nil {
			s.conn = nil
			return err
		}
	}
	var connections float64
	if err := s.conn.QueryRow(ctx, "select count(*) from pg_stat_activity where datname = current_database()").Scan(&connections); err != nil {
		return err
	}
	s.addSample("connections", "the database", "", soak.Flat, slackFiles, connections)
	rows, err := s.conn.Query(ctx, `select relname::text, n_live_tup::float8, n_dead_tup::float8, pg_total_relation_size(relid)::float8
		from pg_stat_user_tables order by relname`)
	if err != nil {
		return err
	}
	var name string
	var live, dead, size float64
	_, err = pgx.ForEachRow(rows, []any{&name, &live, &dead, &size}, func() error {
		rule, slack := soak.PerExecution, float64(1<<10)
		if name == evidenceTable {
			rule = soak.Told // the harness deletes its rows after reading them
		}
		if size > 64<<10 {
			s.addSample("table size", name, "bytes", rule, slack, size)
		}
		if live+dead > 100 {
			// The server counts these rows, and its counters restart at zero after a kill.
			s.addSample("live rows", name, "", soak.Told, 0, live)
			s.addSample("dead rows", name, "", soak.Told, 0, dead)
		}
		return nil
	})
	return err
}

// sampleBroker samples the broker through its management API.
func (s *sampler) sampleBroker(ctx context.Context) {
	var queues []struct {
		Name     string
		Messages float64
	}
	if s.x.w.sandbox.servers.RabbitMQ.Management == "" || s.broker == nil {
		return
	}
	if s.askBroker(ctx, "/api/queues/"+url.PathEscape(s.x.w.mq.Vhost)+"?columns=name,messages", &queues) == nil {
		total := 0.0
		for _, q := range queues {
			total += q.Messages
		}
		s.addSample(queuedCurve, "the broker", "", soak.Flat, slackQueue, total)
	}
	var nodes []struct {
		Memory float64 `json:"mem_used"`
		Files  float64 `json:"fd_used"`
	}
	if s.askBroker(ctx, "/api/nodes?columns=mem_used,fd_used", &nodes) == nil && len(nodes) > 0 {
		s.addSample("memory", "the broker", "bytes", soak.Flat, slackBroker, nodes[0].Memory)
		s.addSample("file descriptors", "the broker", "", soak.Flat, slackFiles*2, nodes[0].Files)
	}
	var overview struct {
		Totals struct{ Connections, Channels float64 } `json:"object_totals"`
	}
	if s.askBroker(ctx, "/api/overview?columns=object_totals", &overview) == nil {
		s.addSample("connections", "the broker", "", soak.Flat, slackFiles, overview.Totals.Connections)
		s.addSample("channels", "the broker", "", soak.Flat, slackFiles*2, overview.Totals.Channels)
	}
}

// askBroker decodes an answer of the management API, as the user in the broker's address.
func (s *sampler) askBroker(ctx context.Context, path string, answer any) error {
	address, err := url.Parse(s.x.w.sandbox.servers.RabbitMQ.Management + path)
	if err != nil {
		return err
	}
	address.User = s.broker
	page, err := fetchPage(ctx, s.client, address.String())
	if err != nil {
		return err
	}
	return json.Unmarshal(page, answer)
}

// sampleFiles samples the sizes of the shims' journals and the daemons' logs, and the number of workers' files.
func (s *sampler) sampleFiles() {
	var journals, logs float64
	for _, p := range s.x.w.allProcesses() {
		if p.witness != nil {
			journals += float64(p.witness.Size())
		}
		if r := p.daemon.Instance(); r != nil {
			if info, err := os.Stat(r.Log()); err == nil {
				logs += float64(info.Size())
			}
		}
	}
	s.addSample("journals", "the shims", "bytes", soak.PerExecution, 128, journals)
	s.addSample("logs", "the daemons", "bytes", soak.PerExecution, 1<<10, logs)
	if entries, err := os.ReadDir(s.x.w.folder); err == nil {
		s.addSample("files left", "the workers", "", soak.Flat, slackFiles*2, float64(len(entries)))
	}
}

// sampleJudge samples the judge's figures, at most every sampleEvery.
func (s *sampler) sampleJudge(l *soak.Ledger, stream *evidence.Stream) {
	passed := time.Since(s.last.at)
	if passed < sampleEvery {
		return
	}
	accepted := int(s.x.load.accepted.Load())
	s.addSample("accepted a second", ofLoad, "", soak.Told, 0, float64(accepted-s.last.accepted)/passed.Seconds())
	s.addSample("ended a second", ofLoad, "", soak.Told, 0, float64(l.Ended-s.last.ended)/passed.Seconds())
	s.addSample("executions so far", ofLoad, "", soak.Told, 0, float64(l.Rows))
	s.addSample(openCurve, ofLoad, "", soak.Flat, 0, float64(l.Open()))
	s.addSample("judge is behind", "the harness", "seconds", soak.Told, 0, stream.Behind.Seconds())
	if took := l.Latencies(); len(took) > 0 {
		slices.Sort(took)
		s.addSample("creation to end, median", ofLoad, "seconds", soak.Flat, 1, took[len(took)/2])
		s.addSample("creation to end, 99 %", ofLoad, "seconds", soak.Told, 0, took[len(took)*99/100])
	}
	s.last.at, s.last.ended, s.last.accepted = time.Now(), l.Ended, accepted
}
