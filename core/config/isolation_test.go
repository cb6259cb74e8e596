package config

import (
	"strings"
	"testing"
)

const servers = "database: {url: postgres://db/handoff}\nmessage_queue: {rabbitmq: {url: amqp://mq/}}\n"

func TestIsolationIsParsedAndValidated(t *testing.T) {
	e, problems := Load(Input{File: "f.yaml", Data: []byte(servers +
		"worker: {isolation: {user: runner, privileges: keep, private_tmp: off, cgroup: require, memory_bytes: 68719476736, cpus: 0.5, processes: 64, run_dir: /var/lib/handoff}}\n")})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := Isolation{
		User: "runner", Privileges: KeepPrivileges, PrivateTmp: PrivateTmpOff, Cgroup: CgroupRequire, MemoryBytes: 64 << 30, CPUs: 0.5, Processes: 64,
		DiskBytes: 1 << 30, OutputBytes: 1 << 30, RunDir: "/var/lib/handoff",
	}
	if got := e.Deployment.Worker.Isolation; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for text, want := range map[string]string{
		"run_dir: runs":         `worker.isolation.run_dir: is "runs", must be an absolute path`,
		"user: ':staff'":        `worker.isolation.user: is ":staff"; it should look like`,
		"user: 'runner:'":       `worker.isolation.user: is "runner:"; it should look like`,
		"cpus: -1":              "worker.isolation.cpus: is -1, must be from 0 to 10000",
		"memory_bytes: 1000":    "worker.isolation.memory_bytes: is 1000, must be 0, which is no limit, or at least 8388608",
		"processes: 1":          "worker.isolation.processes: is 1, must be 0",
		"disk_bytes: 1":         "worker.isolation.disk_bytes: is 1, must be 0",
		"output_bytes: 1":       "worker.isolation.output_bytes: is 1, must be 0",
		"cgroup: v2":            "unknown worker.isolation.cgroup",
		"private_tmp: yes":      "unknown worker.isolation.private_tmp",
		"privileges: all":       "unknown worker.isolation.privileges",
		"disk_bytes: 1.0e+99":   "disk_bytes",
		"processes: 2678400001": "processes",
	} {
		if _, problems := Load(Input{File: "f.yaml", Data: []byte(servers + "worker: {isolation: {" + text + "}}\n")}); !strings.Contains(problems.Error(), want) {
			t.Errorf("%s: %v, want %s", text, problems, want)
		}
	}
}

func TestSecretFileIsDetected(t *testing.T) {
	for _, c := range []struct {
		file    string
		environ []string
		want    string
	}{
		{servers, nil, ""},
		{strings.ReplaceAll(servers, "//db", "//u:p4ss@db"), nil, "f.yaml"},
		{strings.ReplaceAll(servers, "//mq", "//u:p4ss@mq"), nil, "f.yaml"},
		{servers + "api: {token: abcdefghijkl}\n", nil, "f.yaml"},
		{servers, []string{"HANDOFF_DATABASE_URL=postgres://u:p4ss@db/handoff"}, ""},
	} {
		e, _ := Load(Input{File: "f.yaml", Data: []byte(c.file), Environ: c.environ})
		if got := e.SecretFile(); got != c.want {
			t.Errorf("%s: %q, want %q", c.file, got, c.want)
		}
	}
}
