// Package deploy_test holds the files of docs/deploy for a cluster against the types of its API: what a cluster would refuse
// or, worse, ignore, is refused here.
package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const root = "../.."

func text(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// decode decodes a document strictly: unknown fields, duplicate ones, and values of another type are errors.
func decode(document string, jobs map[string]*batchv1.Job, claims map[string]*corev1.PersistentVolumeClaim) error {
	var kind struct {
		Kind string `json:"kind"`
	}
	if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
		return err
	}
	if kind.Kind == "PersistentVolumeClaim" {
		claim := new(corev1.PersistentVolumeClaim)
		if err := yaml.UnmarshalStrict([]byte(document), claim); err != nil {
			return err
		}
		claims[claim.Name] = claim
		return nil
	}
	job := new(batchv1.Job)
	if err := yaml.UnmarshalStrict([]byte(document), job); err != nil {
		return err
	}
	jobs[job.Name] = job
	return nil
}

func read(t *testing.T) (map[string]*batchv1.Job, map[string]*corev1.PersistentVolumeClaim) {
	t.Helper()
	jobs, claims := make(map[string]*batchv1.Job), make(map[string]*corev1.PersistentVolumeClaim)
	for _, document := range strings.Split(text(t, "docs", "deploy", "kubernetes-chaos.yaml"), "\n---\n") {
		if err := decode(document, jobs, claims); err != nil {
			t.Fatal(err)
		}
	}
	return jobs, claims
}

func TestWhatAClusterWouldIgnoreIsRefused(t *testing.T) {
	file := text(t, "docs", "deploy", "kubernetes-chaos.yaml")
	for name, change := range map[string][2]string{
		"a misspelt field":     {"completionMode:", "completionmodus:"},
		"a field of elsewhere": {"      restartPolicy: Never\n", "      restartPolicy: Never\n      completions: 3\n"},
		"a duplicate field":    {"  parallelism: 16\n", "  parallelism: 16\n  parallelism: 16\n"},
		"a text for a number":  {"  completions: 16", `  completions: "16"`},
	} {
		changed := strings.Replace(file, change[0], change[1], 1)
		if changed == file {
			t.Errorf("%s: nothing was changed", name)
		}
		var err error
		for _, document := range strings.Split(changed, "\n---\n") {
			if err == nil {
				err = decode(document, map[string]*batchv1.Job{}, map[string]*corev1.PersistentVolumeClaim{})
			}
		}
		if err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestTheSweepIsDividedIntoAsManySharesAsThereArePods(t *testing.T) {
	jobs, _ := read(t)
	sweep := jobs["handoff-chaos"]
	if sweep == nil || sweep.APIVersion != "batch/v1" || *sweep.Spec.CompletionMode != batchv1.IndexedCompletion {
		t.Fatalf("no indexed job: %+v", sweep)
	}
	pod := sweep.Spec.Template.Spec
	env := make(map[string]string)
	for _, v := range pod.Containers[0].Env {
		env[v.Name] = v.Value
	}
	if shares, _ := strconv.Atoi(env["SHARES"]); int32(shares) != *sweep.Spec.Completions || *sweep.Spec.Parallelism != *sweep.Spec.Completions {
		t.Errorf("%s shares, %d completions, %d at a time", env["SHARES"], *sweep.Spec.Completions, *sweep.Spec.Parallelism)
	}
	seeds := regexp.MustCompile(`(?m)^NIGHT_SEEDS=([0-9]+)$`).FindStringSubmatch(text(t, filepath.Join(".ci", "night")))
	if len(seeds) < 2 || env["SEEDS"] != seeds[1] {
		t.Errorf("%s seeds; .ci/night has %v", env["SEEDS"], seeds)
	}
	script := pod.Containers[0].Args[0]
	for _, part := range []string{"exec chaos run ", "$((JOB_COMPLETION_INDEX + 1))/$SHARES", `--seeds "$SEEDS"`, "/shares/$JOB_COMPLETION_INDEX"} {
		if !strings.Contains(script, part) {
			t.Errorf("no %q in %s", part, script)
		}
	}
}

// A finding is final: it is not tried away, and does not stop the other shares. A lost pod is tried again.
func TestAFindingIsNeitherRepeatedNorStopsTheOthers(t *testing.T) {
	jobs, _ := read(t)
	spec := jobs["handoff-chaos"].Spec
	if spec.BackoffLimitPerIndex == nil || *spec.BackoffLimitPerIndex < 1 || spec.MaxFailedIndexes != nil {
		t.Error("a lost pod ends its share, or a failed share ends the others")
	}
	if spec.Template.Spec.RestartPolicy != corev1.RestartPolicyNever {
		t.Error("a policy for failed pods needs restartPolicy: Never")
	}
	final := make(map[int32]bool)
	for _, rule := range spec.PodFailurePolicy.Rules {
		if rule.Action == batchv1.PodFailurePolicyActionFailIndex {
			for _, code := range rule.OnExitCodes.Values {
				final[code] = true
			}
			if *rule.OnExitCodes.ContainerName != spec.Template.Spec.Containers[0].Name {
				t.Errorf("the rule is for the container %s", *rule.OnExitCodes.ContainerName)
			}
		}
	}
	if !final[1] || !final[2] || !final[3] || final[4] {
		t.Errorf("final are the exit codes %v; want 1, 2 and 3, but not 4: a broken environment may be a passing one", final)
	}
}

func TestSharesAreMergedFromTheVolumeThatTheyAreWrittenTo(t *testing.T) {
	jobs, claims := read(t)
	for _, name := range []string{"handoff-chaos", "handoff-chaos-merge"} {
		job := jobs[name]
		if job == nil {
			t.Fatalf("no job %s", name)
		}
		pod := job.Spec.Template.Spec
		if claim := pod.Volumes[0].PersistentVolumeClaim; claim == nil || claims[claim.ClaimName] == nil {
			t.Errorf("%s has no claim that the file makes", name)
		}
		c := pod.Containers[0]
		if c.VolumeMounts[0].MountPath != "/shares" || c.VolumeMounts[0].Name != pod.Volumes[0].Name {
			t.Errorf("%s mounts %+v", name, c.VolumeMounts)
		}
		if !*pod.SecurityContext.RunAsNonRoot || *c.SecurityContext.AllowPrivilegeEscalation || !*c.SecurityContext.ReadOnlyRootFilesystem || *pod.AutomountServiceAccountToken {
			t.Errorf("%s may do more than it needs", name)
		}
	}
	if modes := claims["handoff-chaos"].Spec.AccessModes; len(modes) != 1 || modes[0] != corev1.ReadWriteMany {
		t.Errorf("%v: pods of several nodes write", modes)
	}
	merge := strings.Join(jobs["handoff-chaos-merge"].Spec.Template.Spec.Containers[0].Command, " ")
	if !strings.HasPrefix(merge, "chaos merge /shares --wait ") || !strings.Contains(merge, " --partial ") {
		t.Errorf("%s", merge)
	}
}

// The image has what the commands of the cluster name, and its context holds it.
func TestTheImageHasTheProgram(t *testing.T) {
	if file := text(t, "docs", "deploy", "chaos.Dockerfile"); !strings.Contains(file, "\nCOPY bin/chaos /usr/local/bin/chaos\n") {
		t.Errorf("%s", file)
	}
	if ignored := text(t, "docs", "deploy", "chaos.Dockerfile.dockerignore"); !strings.HasSuffix(ignored, "\n*\n!bin/chaos\n") {
		t.Errorf("%s", ignored)
	}
}
