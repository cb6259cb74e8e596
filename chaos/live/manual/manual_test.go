package manual_test

import (
	"context"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"handoff/chaos/live/cluster"
	"handoff/chaos/live/manual"
)

var system = []cluster.Named{{Name: "executor-1"}, {Name: "worker-1", Worker: true}, {Name: "worker-2", Worker: true}} //nolint:gochecknoglobals // a constant list

func TestAFaultByHandIsRefusedWithItsReason(t *testing.T) {
	for text, want := range map[string]string{
		"crash: worker-3":                    "worker-3",
		"crash: worker-1, for: 2s":           "for",
		"broker: kill, for: 2s":              "can't be brought about by hand",
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

// supervised records its calls.
type supervised struct{ asked []string }

func (s *supervised) Processes(context.Context) ([]cluster.Named, error) { return system, nil }

func (s *supervised) Do(_ context.Context, process string, act cluster.Act) error {
	s.asked = append(s.asked, process+" "+string(act))
	return nil
}

func TestProcessesAreBrokenAndMended(t *testing.T) {
	for text, want := range map[string][]string{
		"crash: worker-1":                         {"worker-1 crash"},
		"crash: worker-1, restart_after: 1ms":     {"worker-1 crash", "worker-1 start"},
		"stop: executor-1, restart_after: 1ms":    {"executor-1 stop", "executor-1 start"},
		"pause: every worker, for: 1ms":           {"worker-1 pause", "worker-2 pause", "worker-1 resume", "worker-2 resume"},
		"crash: every worker, restart_after: 1ms": {"worker-1 crash", "worker-2 crash", "worker-1 start", "worker-2 start"},
	} {
		s, f, err := manual.Parse(text, system)
		if err != nil {
			t.Fatal(err)
		}
		by := &supervised{}
		if err := (&manual.System{Supervisor: by}).Break(t.Context(), s, f, func(string) {}); err != nil || !slices.Equal(inOrder(by.asked), inOrder(want)) {
			t.Errorf("%q: %v, %v, want %v", text, by.asked, err, want)
		}
	}
}

// inOrder sorts the calls in each half, because the order of a fault's targets is drawn.
func inOrder(asked []string) []string {
	half := (len(asked) + 1) / 2
	slices.Sort(asked[:half])
	slices.Sort(asked[half:])
	return asked
}

// A cut link lets nothing through until the fault ends; Ctrl-C ends it early.
func TestALinkIsCutAndHealed(t *testing.T) {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = echo.Close() }()
	go answer(echo)
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
	if !passes(link.Listen, 5*time.Second) {
		t.Fatal("nothing passes before the fault")
	}
	ctx, interrupt := context.WithCancel(t.Context())
	began, over := make(chan struct{}, 2), make(chan error)
	go func() {
		y := &manual.System{Toxiproxy: strings.TrimPrefix(api.URL, "http://")}
		over <- y.Break(ctx, s, f, func(string) { began <- struct{}{} })
	}()
	<-began
	if passes(link.Listen, 300*time.Millisecond) {
		t.Error("something passes a link that is cut")
	}
	interrupt()
	if err := <-over; err != nil {
		t.Error(err)
	}
	if !passes(link.Listen, 5*time.Second) {
		t.Error("nothing passes after the fault")
	}
}

func answer(l net.Listener) {
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

func passes(address string, within time.Duration) bool {
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
