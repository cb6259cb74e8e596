package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"handoff/chaos/history"
	"handoff/chaos/verdict"
	"handoff/core/testenv"
	"handoff/reports"
)

// perfettoTrace decodes a trace with Perfetto's own schema, and refuses whatever the schema does not
// know: fields, values of enumerations, and required ones that are missing.
func perfettoTrace(t *testing.T, data []byte) []protoreflect.Message {
	t.Helper()
	compiler := protocompile.Compiler{Resolver: &protocompile.SourceResolver{ImportPaths: []string{"../../reports/testdata/perfetto"}}}
	files, err := compiler.Compile(context.Background(), "perfetto_trace.proto")
	if err != nil {
		t.Fatal(err)
	}
	trace := dynamicpb.NewMessage(files[0].Messages().ByName("Trace"))
	if err := proto.Unmarshal(data, trace); err != nil {
		t.Fatal(err)
	}
	var known func(m protoreflect.Message)
	known = func(m protoreflect.Message) {
		if len(m.GetUnknown()) > 0 {
			t.Fatalf("%s has unknown fields: %x", m.Descriptor().FullName(), m.GetUnknown())
		}
		m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			switch {
			case field.Message() == nil:
			case field.IsList():
				for i := range v.List().Len() {
					known(v.List().Get(i).Message())
				}
			default:
				known(v.Message())
			}
			return true
		})
	}
	known(trace)
	packets := trace.Get(trace.Descriptor().Fields().ByName("packet")).List()
	list := make([]protoreflect.Message, packets.Len())
	for i := range list {
		list[i] = packets.Get(i).Message()
	}
	return list
}

// field is a field by its name; path goes into messages.
func field(m protoreflect.Message, path ...string) protoreflect.Value {
	for _, name := range path[:len(path)-1] {
		m = m.Get(m.Descriptor().Fields().ByName(protoreflect.Name(name))).Message()
	}
	return m.Get(m.Descriptor().Fields().ByName(protoreflect.Name(path[len(path)-1])))
}

// drawn is what a trace shows, by the names of tracks.
type drawn struct {
	processes map[string]uint64
	tracks    map[string]int
	slices    map[string][]string
	instants  map[string][]string
	// flows counts the events of each flow, ended the flows that end.
	flows map[uint64]int
	ended map[uint64]bool
}

func drawnBy(t *testing.T, data []byte) *drawn {
	t.Helper()
	d := &drawn{
		processes: map[string]uint64{}, tracks: map[string]int{}, slices: map[string][]string{}, instants: map[string][]string{},
		flows: map[uint64]int{}, ended: map[uint64]bool{},
	}
	names, open, last := map[uint64]string{}, map[uint64]string{}, map[uint64]uint64{}
	for i, packet := range perfettoTrace(t, data) {
		if field(packet, "trusted_packet_sequence_id").Uint() != 1 {
			t.Fatalf("packet %d has no sequence", i)
		}
		if track := field(packet, "track_descriptor").Message(); track.IsValid() {
			uuid, name := field(track, "uuid").Uint(), field(track, "name").String()
			if process := field(track, "process").Message(); process.IsValid() {
				name = field(process, "process_name").String()
				d.processes[name] = uuid
			}
			if parent := field(track, "parent_uuid").Uint(); names[uuid] != "" || name == "" || parent != 0 && names[parent] == "" {
				t.Fatalf("packet %d declares track %d, called %q, below %d", i, uuid, name, parent)
			}
			names[uuid] = name
			d.tracks[name]++
			continue
		}
		event := field(packet, "track_event").Message()
		uuid, name, at := field(event, "track_uuid").Uint(), field(event, "name").String(), field(packet, "timestamp").Uint()
		on := names[uuid]
		if on == "" {
			t.Fatalf("packet %d is on track %d, which is not declared", i, uuid)
		}
		for _, flows := range []string{"flow_ids", "terminating_flow_ids"} {
			for list, n := field(event, flows).List(), 0; n < list.Len(); n++ {
				d.flows[list.Get(n).Uint()]++
				d.ended[list.Get(n).Uint()] = d.ended[list.Get(n).Uint()] || flows == "terminating_flow_ids"
			}
		}
		switch field(event, "type").Enum() {
		case 1:
			if open[uuid] != "" || at < last[uuid] {
				t.Fatalf("packet %d begins %q at %d on %q, where %q is open, or ended later at %d", i, name, at, on, open[uuid], last[uuid])
			}
			open[uuid] = name
			d.slices[on] = append(d.slices[on], name)
		case 2:
			if open[uuid] == "" || at < last[uuid] {
				t.Fatalf("packet %d ends on %q, where nothing began", i, on)
			}
			open[uuid] = ""
		case 3:
			d.instants[on] = append(d.instants[on], name)
			continue // instants stand where they like
		default:
			t.Fatalf("packet %d has type %d", i, field(event, "type").Enum())
		}
		last[uuid] = at
	}
	for uuid, name := range open {
		if name != "" {
			t.Errorf("%q never ends on %q", name, names[uuid])
		}
	}
	return d
}

func TestATraceIsOfPerfettosSchema(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "demo.perfetto-trace")
	chaos(t, append(demo("export"), "--perfetto", file)...).wants(t, 0, file, "network-partition, hardened, seed 4", " MB; open it in https://ui.perfetto.dev")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d := drawnBy(t, data)
	for _, process := range []string{"executor-1", "executor-2", "shell-1", "shell-2", "shell-3", "broker", "database"} {
		if d.processes[process] == 0 {
			t.Errorf("no process %s in %v", process, d.processes)
		}
	}
	if got := strings.Join(d.slices["execution 11"], " "); !strings.HasPrefix(got, "requested scheduling scheduled ") || !strings.HasSuffix(got, " running") {
		t.Errorf("execution 11 has the slices %s", got)
	}
	if n := len(d.slices["actions"]); n < 40 {
		t.Errorf("%d actions, want at least 40", n)
	}
	violations := 0
	for _, name := range append(d.instants["run"], d.instants["execution 11"]...) {
		if strings.HasPrefix(name, "violation of invariant 4 ") {
			violations++
		}
	}
	if violations < 2 {
		t.Errorf("%d marks of the violation, want one on the run and one on its execution", violations)
	}
	faults := 0
	for track, slices := range d.slices {
		if strings.HasPrefix(track, "partition ") {
			faults += len(slices)
		}
	}
	if faults != 8 {
		t.Errorf("%d slices of faults, the scenario has 8", faults)
	}
	joined := 0
	for flow, n := range d.flows {
		if n > 2 && d.ended[flow] {
			joined++
		}
	}
	if joined < 100 {
		t.Errorf("%d of %d flows join more than two events and end", joined, len(d.flows))
	}
}

// The trace of a recording is that of its run, apart from what a history does not hold.
func TestARecordingIsExported(t *testing.T) {
	folder := failing(t, demo("")[1:]...)
	for _, path := range []string{folder, filepath.Join(folder, reports.HistoryFile)} {
		s := chaos(t, "export", path, "--perfetto", "-")
		if s.code != 0 || s.err != "" {
			t.Fatalf("exit %d: %s", s.code, s.err)
		}
		d := drawnBy(t, []byte(s.out))
		if len(d.slices["execution 11"]) < 4 || !strings.Contains(strings.Join(d.instants["execution 11"], "\n"), "violation of invariant 4 ") {
			t.Errorf("%s: execution 11 has the slices %v and the instants %v", path, d.slices["execution 11"], d.instants["execution 11"])
		}
	}
}

func TestExportRefuses(t *testing.T) {
	chaos(t, "export", "ttl-race", "--seed", "1").wants(t, 2, "export needs --perfetto FILE")
	chaos(t, "export", "ttl-race", "--perfetto", "x").wants(t, 2, "export needs --seed")
	chaos(t, "export", "nothing.jsonl", "--perfetto", "x").wants(t, 2, "nothing.jsonl")
	chaos(t, "export", "nothing.jsonl", "--seed", "1", "--perfetto", "x").wants(t, 2, "--seed is for a scenario")
	chaos(t, "export", "a", "b").wants(t, 2, "one scenario or recording, and got 2")
	chaos(t, "export", "ttl-race", "--seed", "1", "--perfetto", t.TempDir()).wants(t, 2, "this is a folder; name a file")
}

// Of a long history the part around the violation is shown, and the trace stays small enough for the
// viewer, whatever the texts are.
func TestATraceIsBounded(t *testing.T) {
	leaveToMakeTest(t)
	r := &verdict.Record{}
	r.Scenario, r.Virtual = "long", time.Hour
	long := strings.Repeat("ö\x00\xff", 1000)
	events, every := reports.PerfettoEvents+1000, 100 // every so many events have a long text
	if testenv.All() {
		events, every = 3*reports.PerfettoEvents, 1
	}
	for i := range events {
		text := "short"
		if i%every == 0 {
			text = long
		}
		r.Events = append(r.Events, history.Event{
			Kind: history.Logged, At: time.Duration(i) * time.Millisecond, Step: uint64(i), Process: fmt.Sprintf("executor-%d", i%3), Text: text,
		})
	}
	r.Violations = []verdict.Violation{{Invariant: 4, Name: "x", At: r.Events[events/2].At, Message: long}}
	var out strings.Builder
	if err := reports.WritePerfetto(&out, r); err != nil {
		t.Fatal(err)
	}
	if out.Len() > 2000*reports.PerfettoEvents {
		t.Errorf("%d bytes", out.Len())
	}
	d := drawnBy(t, []byte(out.String()))
	shown := len(d.instants["executor-0"]) + len(d.instants["executor-1"]) + len(d.instants["executor-2"])
	if shown != reports.PerfettoEvents {
		t.Errorf("%d events are shown, want %d", shown, reports.PerfettoEvents)
	}
	if got := d.instants["run"]; len(got) != 2 || got[0] != fmt.Sprint(events-reports.PerfettoEvents, " events not shown") || !strings.HasPrefix(got[1], "violation") {
		t.Errorf("the run has %q", got)
	}
}
