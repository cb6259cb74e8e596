package manual_test

import (
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	proxies "github.com/Shopify/toxiproxy/v2/client"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"handoff/chaos/live/cluster"
	"handoff/chaos/live/manual"
)

var system = []cluster.Named{{Name: "executor-1"}, {Name: "worker-1", Worker: true}, {Name: "worker-2", Worker: true}} //nolint:gochecknoglobals // a constant list

func TestParseRejectsFaultWithReason(t *testing.T) {
	for text, want := range map[string]string{
		"crash: worker-3":                    "worker-3",
		"crash: worker-1, for: 2s":           "for",
		"broker: kill":                       "for",
		"broker: alarm, for: 2s":             "can't be brought about by hand",
		"database: read_only, for: 2s":       "what can: broker: kill, ",
		"pause: worker-1":                    "for",
		"deaf: worker-1, for: 5s":            "can't be brought about by hand",
		"pause: worker-1, for: 2 seconds":    "2 seconds",
		"crash: worker-1}, {crash: worker-2": "",
	} {
		if _, _, err := manual.Parse(text, system); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want something about %q", text, err, want)
		}
	}
}

// supervisorRecorder is a supervisor that only records the requested acts.
type supervisorRecorder struct{ asked []string }

func (s *supervisorRecorder) Processes(context.Context) ([]cluster.Named, error) { return system, nil }

func (s *supervisorRecorder) Do(_ context.Context, process string, act cluster.Act) error {
	s.asked = append(s.asked, process+" "+string(act))
	return nil
}

func TestBreakEndsAndRestoresProcesses(t *testing.T) {
	for text, want := range map[string][]string{
		"crash: worker-1":                         {"worker-1 crash"},
		"crash: worker-1, restart_after: 1ms":     {"worker-1 crash", "worker-1 start"},
		"stop: executor-1, restart_after: 1ms":    {"executor-1 stop", "executor-1 start"},
		"pause: every worker, for: 1ms":           {"worker-1 pause", "worker-2 pause", "worker-1 resume", "worker-2 resume"},
		"crash: every worker, restart_after: 1ms": {"worker-1 crash", "worker-2 crash", "worker-1 start", "worker-2 start"},
		"broker: kill, for: 1ms":                  {"broker crash", "broker start"},
		"broker: restart, for: 1ms":               {"broker stop", "broker start"},
		"database: kill, for: 1ms":                {"database crash", "database start"},
		"database: restart, for: 1ms":             {"database stop", "database start"},
		"database: hangs, for: 1ms":               {"database pause", "database resume"},
	} {
		s, f, err := manual.Parse(text, system)
		if err != nil {
			t.Fatal(err)
		}
		by := &supervisorRecorder{}
		if err := (&manual.System{Supervisor: by}).Break(t.Context(), s, f, func(string) {}); err != nil || !slices.Equal(inOrder(by.asked), inOrder(want)) {
			t.Errorf("%q: %v, %v, want %v", text, by.asked, err, want)
		}
	}
}

// Mend implements manual.Supervisor.
func (s *supervisorRecorder) Mend(context.Context) error {
	s.asked = append(s.asked, "mend")
	return nil
}

// Until the fault ends, a slow database is slow for every process. Undo heals the links, too, and the fault's
// own end then has nothing to do.
func TestSlowDatabaseIsRestored(t *testing.T) {
	for _, undone := range []bool{false, true} {
		server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
		api := httptest.NewServer(server.Routes())
		t.Cleanup(api.Close)
		for _, p := range system {
			link := toxiproxy.NewProxy(server, p.Name+".database", "127.0.0.1:0", "127.0.0.1:1")
			if err := server.Collection.Add(link, true); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(link.Stop)
		}
		client := proxies.NewClient(strings.TrimPrefix(api.URL, "http://"))
		slowed := func() (all []string) {
			list, err := client.Proxies()
			if err != nil {
				t.Fatal(err)
			}
			for name, p := range list {
				for _, toxic := range p.ActiveToxics {
					all = append(all, fmt.Sprint(name, " ", toxic.Type, " ", toxic.Attributes["latency"]))
				}
			}
			slices.Sort(all)
			return all
		}
		by := &supervisorRecorder{}
		y := &manual.System{Supervisor: by, Toxiproxy: strings.TrimPrefix(api.URL, "http://")}
		s, f, err := manual.Parse("database: {slow: 200ms}, for: 1h", system)
		if err != nil {
			t.Fatal(err)
		}
		ctx, interrupt := context.WithCancel(t.Context())
		t.Cleanup(interrupt)
		began, over := make(chan struct{}, 8), make(chan error)
		go func() { over <- y.Break(ctx, s, f, func(string) { began <- struct{}{} }) }()
		<-began
		want := []string{"executor-1.database latency 200", "worker-1.database latency 200", "worker-2.database latency 200"}
		if got := slowed(); !slices.Equal(got, want) {
			t.Errorf("slow: %q, want %q", got, want)
		}
		if s, f, err := manual.Parse("latency: {of: worker-1, to: [database], adds: 1ms}, for: 1h", system); err != nil {
			t.Error(err)
		} else if err := y.Break(t.Context(), s, f, func(string) {}); err == nil || !strings.Contains(err.Error(), "chaos inject --undo") {
			t.Errorf("a second fault on the same link: %v; the error should name --undo", err)
		}
		end := func() {
			interrupt()
			if err := <-over; err != nil {
				t.Errorf("undone before its end: %v: %v", undone, err)
			}
		}
		if !undone {
			end()
		} else if err := y.Undo(t.Context()); err != nil || !slices.Equal(by.asked, []string{"mend"}) {
			t.Errorf("undo: %v, asked %q", err, by.asked)
		}
		if got := slowed(); got != nil {
			t.Errorf("still slow: %q", got)
		}
		if undone {
			end()
		}
	}
}

// inOrder sorts the calls in each half, because the order of a fault's targets is random.
func inOrder(asked []string) []string {
	half := (len(asked) + 1) / 2
	slices.Sort(asked[:half])
	slices.Sort(asked[half:])
	return asked
}

// A cut link passes nothing until the fault ends. Ctrl-C ends it early.
func TestLinkIsCutAndHealed(t *testing.T) {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = echo.Close() }()
	go serveEcho(echo)
	link := toxiproxy.NewProxy(server, "worker-1.broker", "127.0.0.1:0", echo.Addr().String())
	if err := server.Collection.Add(link, true); err != nil {
		t.Fatal(err)
	}
	defer link.Stop()
	api := httptest.NewServer(server.Routes())
	defer api.Close()

	s, f, err := manual.Parse("partition: {cut: worker-1, from: [broker]}, for: 1h", system)
	if err != nil {
		t.Fatal(err)
	}
	if !bytePasses(link.Listen, 5*time.Second) {
		t.Fatal("nothing passes before the fault")
	}
	ctx, interrupt := context.WithCancel(t.Context())
	began, over := make(chan struct{}, 2), make(chan error)
	go func() {
		y := &manual.System{Toxiproxy: strings.TrimPrefix(api.URL, "http://")}
		over <- y.Break(ctx, s, f, func(string) { began <- struct{}{} })
	}()
	<-began
	if bytePasses(link.Listen, 300*time.Millisecond) {
		t.Error("something passes a link that is cut")
	}
	interrupt()
	if err := <-over; err != nil {
		t.Error(err)
	}
	if !bytePasses(link.Listen, 5*time.Second) {
		t.Error("nothing passes after the fault")
	}
}

func serveEcho(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = c.Close() }()
			b := make([]byte, 1)
			if _, err := c.Read(b); err == nil {
				_, _ = c.Write(b)
			}
		}()
	}
}

func bytePasses(address string, within time.Duration) bool {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(within))
	_, _ = c.Write([]byte("x"))
	_, err = c.Read(make([]byte, 1))
	return err == nil
}
