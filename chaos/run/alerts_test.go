package run

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/scenario"
	"handoff/core/config"
	"handoff/core/telemetry"
)

const brake = "reaper_brake"

// watched returns Alerts that expect the brake alert to resolve, on the clock of a synctest bubble at half
// speed.
func watched(collect func(a *Alerts), patience time.Duration) (a *Alerts, told *[]string) {
	clock := wall{time.Now()}
	told = new([]string)
	o := AlertsOptions{Clock: clock, Every: telemetry.SampleInterval / 2, Patience: patience, Emit: func(e history.Event) {
		if e.Fault == brake {
			*told = append(*told, fmt.Sprint(clock.Now(), " ", e.Kind, " ", e.Fault))
		}
	}}
	if collect != nil {
		o.Collect = func() func() { return func() { collect(a) } }
	}
	a = NewAlerts(scenario.Alerts{Resolves: []string{brake}}, o)
	return a, told
}

func (a *Alerts) brake(v int64) {
	a.Evaluator().Process("executor-1").Set(telemetry.ReaperBrake, v, telemetry.Labels{})
}

func TestAlertsAreSampledEveryInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		every := telemetry.SampleInterval / 2
		var at []time.Duration
		began := time.Now()
		a, told := watched(func(a *Alerts) {
			at = append(at, time.Since(began))
			a.brake(int64(len(at) % 2))
			if len(at) == 3 {
				time.Sleep(every + every/2) // skips one sample
			}
		}, 0)
		a.Sample()
		time.Sleep(5*every + every/2)
		a.Stop()
		time.Sleep(10 * every)
		want := []time.Duration{0, every, 2 * every, 4 * every, 5 * every}
		if fmt.Sprint(at) != fmt.Sprint(want) {
			t.Errorf("samples at %v, want %v", at, want)
		}
		if len(*told) != len(want) {
			t.Errorf("five changes of the brake are reported as %q", *told)
		}
	})
}

func TestRunWaitsForAlertToResolve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, told := watched(nil, time.Hour)
		for _, v := range []int64{0, 1, 1, 0} {
			a.brake(v)
			a.takeSample(0, nil)
			if pending := a.Pending(); pending != (v == 1) {
				t.Errorf("the brake is %d, and the run waits for an alert: %v", v, pending)
			}
		}
		expect(t, *told, "0s alert_fired "+brake, "0s alert_resolved "+brake)
	})
}

// An alert that never resolves delays the end of a run by Patience at most.
func TestRunStopsWaitingAfterPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := watched(nil, time.Hour)
		a.brake(1)
		a.takeSample(0, nil)
		if !a.Pending() {
			t.Error("it does not wait")
		}
		time.Sleep(time.Hour)
		if a.Pending() {
			t.Error("it still waits")
		}
		if a.Awake(); !a.Pending() {
			t.Error("something has happened since, and it does not wait")
		}
		a.o.Patience = 0
		if time.Sleep(24 * time.Hour); !a.Pending() {
			t.Error("it has lost a patience without end")
		}
	})
}

func TestPatienceExceedsBrakeAndWindow(t *testing.T) {
	c := config.Default(config.Hardened)
	if least, got := 2*c.Worker.Lease()+5*time.Minute, Patience(c, 3, telemetry.SampleInterval); got < least {
		t.Errorf("%v, and the brake and a window can take %v", got, least)
	}
}

func TestMethodsOfNilAlertsDoNothing(t *testing.T) {
	a := NewAlerts(scenario.Alerts{}, AlertsOptions{})
	a.Sample()
	a.Stop()
	if a != nil || a.Pending() || a.Evaluator() != nil {
		t.Error("a scenario without alerts is watched")
	}
}
