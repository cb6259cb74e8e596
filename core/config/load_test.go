package config

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/core/config/yamlfile"
)

// addresses are the settings that every daemon needs.
const addresses = "database: {url: postgres://h/d}\nmessage_queue: {rabbitmq: {url: amqp://h}}\n"

func texts(problems yamlfile.Errors) []string {
	var list []string
	for _, p := range problems {
		list = append(list, p.Where()+": "+p.Text())
	}
	return list
}

func TestMistakesInFileAreLocated(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		want []string
	}{
		"unknown key": {
			"executor:\n  dispatch_timout: 3s\n",
			[]string{`c.yaml:4:3: unknown key "dispatch_timout" under executor; allowed: dispatch_timeout, scheduled_timeout, timeout_check_interval, timeout_monitor, unschedulable_grace, unclaimed, max_dispatches, reconcile_interval, dispatch_ahead, dispatches_per_message, direct_dispatch, claim_expiry, reap_grace, brake_fraction, brake_min_workers, confirm_timeout, queue_retention, statement_timeout, health_check_interval, health_probes, figures_interval, batch_size, name, actions; did you mean "dispatch_timeout"?`},
		},
		"key of another section": {
			"retry: {max_dispatches: 1}\n",
			[]string{`c.yaml:3:9: unknown key "max_dispatches" under retry; allowed: enabled, base_backoff_secs, max_backoff_secs, backoff_multiplier, jitter_factor, free_shutdowns; did you mean "executor.max_dispatches"?`},
		},
		"unknown section": {
			"exekutor: {}\n",
			[]string{`c.yaml:3:1: unknown key "exekutor" under the top; allowed: profile, executor, worker, message_queue, retry, health, database, retention, api, log; did you mean "executor"?`},
		},
		"keys of the source documents": {
			"executor: {worker_queue_ttl: 300}\nworker: {heartbeat_max_age_secs: 90, profile: x}\nrabbitmq: {}\n",
			[]string{
				`c.yaml:3:12: key "worker_queue_ttl" was renamed to message_queue.rabbitmq.worker_queue_ttl_ms, in milliseconds`,
				`c.yaml:4:10: key "heartbeat_max_age_secs" is refused, because freshness is the lease and nothing else: set worker.heartbeat_interval and worker.heartbeat_staleness_multiplier`,
				`c.yaml:4:38: key "profile" is refused here: the profile stands at the top of the file`,
				`c.yaml:5:1: key "rabbitmq" was renamed to message_queue.rabbitmq`,
			},
		},
		"units and types": {
			"executor: {scheduled_timeout: 300, batch_size: many, max_dispatches: 1.5}\nretry: {enabled: yes please, jitter_factor: [1]}\n",
			[]string{
				`c.yaml:3:31: executor.scheduled_timeout is 300 without a unit; allowed: ms, s, m, h; did you mean "300s"?`,
				`c.yaml:3:48: executor.batch_size must be a whole number, is the string "many"`,
				`c.yaml:3:70: executor.max_dispatches must be a whole number, is the number 1.5`,
				`c.yaml:4:18: retry.enabled must be true or false, is the string "yes please"`,
				`c.yaml:4:45: retry.jitter_factor must be a number, is a list`,
			},
		},
		"names": {
			"profile: hardend\nworker: {runtimes: [shell, pyton]}\nlog: {level: loud}\n",
			[]string{
				`c.yaml:3:10: unknown profile "hardend"; allowed: hardened, documented; did you mean "hardened"?`,
				`c.yaml:4:28: unknown name "pyton" in worker.runtimes; allowed: shell, python, node, noop; did you mean "python"?`,
				`c.yaml:5:14: unknown log.level "loud"; allowed: debug, info, warn, error`,
			},
		},
		"settings that make no sense together, at the key that was set": {
			"executor:\n  scheduled_timeout: 60s\n",
			[]string{
				`c.yaml:4:22: executor.scheduled_timeout: is 1m0s, must not be shorter than executor.dispatch_timeout (2m0s): the backstop would act before the deadline`,
				`default of profile hardened: message_queue.rabbitmq.worker_queue_ttl_ms: is 3m0s, must not be longer than executor.scheduled_timeout (1m0s), the backstop`,
			},
		},
		"a refused value is not judged": {
			"executor: {dispatch_timeout: 5}\nworker: {heartbeat_interval: 1}\n",
			[]string{
				`c.yaml:3:30: executor.dispatch_timeout is 5 without a unit; allowed: ms, s, m, h; did you mean "5s"?`,
				`c.yaml:4:30: worker.heartbeat_interval is 1 without a unit; allowed: ms, s, m, h; did you mean "1s"?`,
			},
		},
		"twice":           {"retry: {enabled: true, enabled: false}\n", []string{`c.yaml:3:24: duplicate key "enabled" under retry; the first is in line 3`}},
		"second document": {"---\na: b\n", []string{`c.yaml:4:1: a second document begins here; a file holds one configuration`}},
		"addresses": {
			"api: {listen: nowhere, token: a b}\n",
			[]string{
				`c.yaml:3:15: api.listen: "nowhere" is not an address; it should look like 127.0.0.1:8080`,
				`c.yaml:3:31: api.token: has a character that an HTTP header can't carry; use letters, digits and punctuation, without spaces`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := Load(Input{File: "c.yaml", Data: []byte(addresses + c.file)})
			got := slices.DeleteFunc(texts(problems), func(s string) bool { return strings.Contains(s, "url: is not set") })
			if !slices.Equal(got, c.want) {
				t.Errorf("problems:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestMistakesInEnvironmentAndFlagsAreReported(t *testing.T) {
	_, problems := Load(Input{
		Environ: []string{
			"HANDOFF_DISPATCH_TIMEOUT=3s", "HANDOFF_EXECUTOR_BATCH_SIZ=1", "HANDOFF_EXECUTOR_REAP_GRACE=3", "HANDOFF_RETRY_ENABLED=yes", "PATH=/bin",
			// Kubernetes sets these for services called handoff and handoff-executor.
			"HANDOFF_WITHOUT=docker", "HANDOFF_INSTALL=no", "HANDOFF_TESTS=all", "HANDOFF_PATIENCE=3", "HANDOFF_CONFORMANCE_STEPS=9", "HANDOFF_SERVICE_HOST=10.0.0.1", "HANDOFF_PORT_8080_TCP_ADDR=10.0.0.1", "HANDOFF_EXECUTOR_PORT=tcp://10.0.0.1:1", "HANDOFF_EXECUTOR_SERVICE_PORT_HTTP=1",
			"HANDOFF_CHAOS_DATABASE_URL=x", "HANDOFF_WITNESS=/tmp/w",
		},
		Flags: []Flag{{"--runtimes", "worker.runtimes", "shell,perl"}, {"--concurrency", "worker.concurrency", "0"}},
	})
	want := []string{
		`HANDOFF_DISPATCH_TIMEOUT: no key is set by this environment variable; did you mean "HANDOFF_EXECUTOR_DISPATCH_TIMEOUT"?`,
		`HANDOFF_EXECUTOR_BATCH_SIZ: no key is set by this environment variable; did you mean "HANDOFF_EXECUTOR_BATCH_SIZE"?`,
		`HANDOFF_EXECUTOR_REAP_GRACE: executor.reap_grace is 3 without a unit; allowed: ms, s, m, h; did you mean "3s"?`,
		`HANDOFF_RETRY_ENABLED: retry.enabled must be true or false, is "yes"`,
		`--runtimes: unknown name "perl" in worker.runtimes, a list with commas; allowed: shell, python, node, noop`,
		`flag --concurrency: worker.concurrency: is 0, must be between 1 and 2000: it is the prefetch`,
		`default: database.url: is not set; set it in the file or by the environment variable HANDOFF_DATABASE_URL`,
		`default: message_queue.rabbitmq.url: is not set; set it in the file or by the environment variable HANDOFF_MESSAGE_QUEUE_RABBITMQ_URL`,
	}
	if got := texts(problems); !slices.Equal(got, want) {
		t.Errorf("problems:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestLaterSourcesWin(t *testing.T) {
	e, problems := Load(Input{
		File: "c.yaml", Data: []byte("profile: documented\nworker: {concurrency: 2, kill_grace: 1s}\nexecutor: {batch_size: 7}\n" + addresses),
		Environ: []string{"HANDOFF_WORKER_CONCURRENCY=3", "HANDOFF_EXECUTOR_BATCH_SIZE=8", "HANDOFF_API_LISTEN=", "HANDOFF_EXECUTOR_CLAIM_EXPIRY="},
		Flags:   []Flag{{"--concurrency", "worker.concurrency", "4"}},
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := Default(Documented)
	want.Worker.Concurrency, want.Worker.KillGrace, want.Executor.BatchSize = 4, time.Second, 8
	if !reflect.DeepEqual(e.Config, want) {
		t.Errorf("the configuration is %+v, want %+v", e.Config, want)
	}
	if e.Deployment.API.Listen != "" {
		t.Errorf("an empty HANDOFF_API_LISTEN leaves the API at %q", e.Deployment.API.Listen)
	}
	for path, where := range map[string]string{
		"profile": "c.yaml:1:10", "worker.concurrency": "flag --concurrency", "worker.kill_grace": "c.yaml:2:38",
		"executor.batch_size":       "environment variable HANDOFF_EXECUTOR_BATCH_SIZE",
		"executor.dispatch_timeout": "default of profile documented", "worker.health_listen": "default",
	} {
		if got := e.Origin(path); got != where {
			t.Errorf("%s comes from %q, want %q", path, got, where)
		}
	}
}

// Loading the printed configuration gives the same configuration.
func TestPrintedConfigurationCanBeReloaded(t *testing.T) {
	for _, p := range Profiles() {
		e, problems := Load(Input{File: "c.yaml", Data: []byte("profile: " + string(p) + "\nworker: {name: \"w: 1\", runtimes: [noop]}\n" + addresses)})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		var out bytes.Buffer
		e.Print(&out)
		again, problems := Load(Input{File: "printed.yaml", Data: out.Bytes()})
		if len(problems) > 0 {
			t.Fatalf("what was printed can't be read: %v\n%s", problems, out.String())
		}
		if !reflect.DeepEqual(again.Config, e.Config) || !reflect.DeepEqual(again.Deployment, e.Deployment) {
			t.Errorf("read back: %+v %+v\nprinted: %+v %+v", again.Config, again.Deployment, e.Config, e.Deployment)
		}
	}
}

func TestMessagesRevealNoSecrets(t *testing.T) {
	const secret = "s3cr3t"
	for _, file := range []string{
		"api: {token: s3cr3t}\n",
		"api: {tokn: s3cr3t}\n",
		"api:\n  token: [s3cr3t]\n",
		"api: {token: \"s3cr3t s\"}\n",
		"database: {url: \"postgres://u:s3cr3t@h/d?sslpassword=s3cr3t\"}\n",
		"database: {url: \"postgres://u:s3cr3t@:x:y/d\"}\n",
		"database: {url: \"postgres://u:s3cr3t%zz@h/d\"}\n",
		"database: {url: \"host=h password=s3cr3t\"}\n",
		"database: {uri: postgres://u:s3cr3t@h/d}\n",
		"message_queue: {rabbitmq: {url: \"amqp://u:s3cr3t@h/\", x: 1}}\n",
		"message_queue: {rabbitmq: {url: \"http://u:s3cr3t@h/\"}}\n",
		"database: {url: postgres://u:s3cr3t@h/d\n",
	} {
		e, problems := Load(Input{File: "c.yaml", Data: []byte(file)})
		var out bytes.Buffer
		e.Print(&out)
		if all := out.String() + problems.Error(); strings.Contains(all, secret) {
			t.Errorf("a secret of %s is revealed:\n%s", file, all)
		}
	}
	e, problems := Load(Input{Environ: []string{"HANDOFF_API_TOKEN=s3cr3t ", "HANDOFF_DATABASE_URL=://s3cr3t"}})
	var out bytes.Buffer
	e.Print(&out)
	if all := out.String() + problems.Error(); strings.Contains(all, secret) {
		t.Errorf("a secret of the environment is revealed:\n%s", all)
	}
}

func TestMaskURLHidesPassword(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "",
		"postgres://h/d":                     "postgres://h/d",
		"postgres://u@h/d":                   "postgres://u@h/d",
		"postgres://u:p%40q@h:5/d?a=b":       "postgres://u:***@h:5/d?a=b",
		"postgres:///d?host=/tmp&password=p": "postgres:///d?host=%2Ftmp&password=***",
		"host=h password=p":                  "***",
	} {
		if got := MaskURL(text); got != want {
			t.Errorf("MaskURL(%q) = %q, want %q", text, got, want)
		}
	}
}

// Dots become underscores, so two keys could map to the same variable.
func TestEveryKeyHasUniqueVariable(t *testing.T) {
	seen := map[string]string{}
	for _, l := range daemonLeaves() {
		name := EnvName(l.Path)
		if other, ok := seen[name]; ok {
			t.Errorf("%s sets both %s and %s", name, other, l.Path)
		}
		if foreignVariable.MatchString(name) {
			t.Errorf("%s, which sets %s, is ignored as foreign", name, l.Path)
		}
		seen[name] = l.Path
	}
}

func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		"", addresses, "profile: documented\n", "executor: {dispatch_timeout: 3s}\n", "executor: {dispatch_timeout: 3}\n",
		"worker: {runtimes: [shell, shell]}\n", "a: &a [*a]\n", "api: {token: 1}\n", "- 1\n", "? {a: b}\n: c\n", "retry: {jitter_factor: .nan}\n",
		"message_queue: {rabbitmq: {worker_queue_ttl_ms: 99999999999999999999}}\n", "\t", "profile: !!binary aGk=\n", "database: {url: \"postgres://%zz\"}\n",
		"api: {tokens: [{name: a, token: aaaaaaaaaaaaaaaa, old_token: bbbbbbbbbbbbbbbb, rights: read}], allowed_hosts: [a, \"::1\"], insecure: true}\n",
	} {
		f.Add([]byte(seed), "HANDOFF_EXECUTOR_REAP_GRACE=3s")
		f.Add([]byte(seed), "HANDOFF_API_TOKENS=[{name: a, token: aaaaaaaaaaaaaaaa, rights: read}]")
	}
	f.Fuzz(func(t *testing.T, data []byte, variable string) {
		e, problems := Load(Input{File: "c.yaml", Data: data, Environ: []string{variable}})
		lines := 1 + bytes.Count(data, []byte("\n"))
		for _, p := range problems {
			if p.Line < 0 || p.Line > lines || p.Line > 0 && p.Column < 1 || p.Message == "" {
				t.Errorf("a problem without a place: %+v", p)
			}
			_ = p.Error()
		}
		if len(problems) > 0 {
			return
		}
		var out bytes.Buffer
		e.Print(&out)
		again, problems := Load(Input{File: "printed.yaml", Data: out.Bytes()})
		if len(problems) > 0 && !strings.Contains(out.String(), masked) {
			t.Fatalf("what was printed can't be read: %v\n%s", problems, out.String())
		}
		if !reflect.DeepEqual(again.Config, e.Config) {
			t.Errorf("printed %+v, read back %+v", e.Config, again.Config)
		}
	})
}
