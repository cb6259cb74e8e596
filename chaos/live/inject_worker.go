package live

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"handoff/chaos/history"
	"handoff/core/execution"
	"handoff/core/store"
)

// This file brings about half deaths of workers, and what operators do to them.

// injectDeaf keeps back what the broker delivers. Heartbeats of both kinds go on, and so does everything that
// the worker says, so nothing that it can see tells it.
func injectDeaf(x *injection) (func(), error) {
	for _, p := range x.targets {
		p.deaf.Store(x)
	}
	return func() {
		for _, p := range x.targets {
			p.deaf.CompareAndSwap(x, nil)
		}
	}, nil
}

// keepsBack says whether the process is deaf just now.
func (p *process) keepsBack() bool {
	x := p.deaf.Load()
	if x != nil {
		x.touch()
	}
	return x != nil
}

// injectMute has the database refuse the heartbeats of the workers and take everything else that they say. A
// sequence counts the refusals, because it is not rolled back with them.
func injectMute(x *injection) (func(), error) {
	var names []string
	for _, p := range x.targets {
		names = append(names, "'"+strings.ReplaceAll(p.name, "'", "''")+"'")
	}
	mute := fmt.Sprintf("chaos_mute_%d", x.fault.Index)
	begin := []string{
		"create sequence " + mute,
		fmt.Sprintf(`create function %[1]s() returns trigger language plpgsql as $$
begin
    if current_setting('application_name') in (%[2]s) then
        perform nextval('%[1]s');
        raise exception 'the worker is mute' using errcode = 'io_error';
    end if;
    return new;
end
$$`, mute, strings.Join(names, ", ")),
		fmt.Sprintf("create trigger %[1]s before update on worker_incarnation for each row when (old.beat <> new.beat) execute function %[1]s()", mute),
	}
	if err := x.w.sql(begin...); err != nil {
		return nil, err
	}
	return func() {
		ctx, cancel := x.w.within()
		defer cancel()
		var refused bool
		if err := x.w.pool.QueryRow(ctx, "select is_called from "+mute).Scan(&refused); err != nil {
			x.w.fail("counting refused heartbeats: " + err.Error())
		}
		if refused {
			x.touch()
		}
		if err := x.w.sql(fmt.Sprintf("drop trigger %s on worker_incarnation", mute), "drop function "+mute, "drop sequence "+mute); err != nil {
			x.w.fail(err.Error())
		}
	}, nil
}

// injectSick takes from each worker the right to run its own program, with which it starts every action.
func injectSick(x *injection) (func(), error) {
	set := func(sick bool) error {
		for _, p := range x.targets {
			if err := p.setSick(sick); err != nil {
				return err
			}
		}
		return nil
	}
	if err := set(true); err != nil {
		return nil, err
	}
	x.proof(func(e *history.Event) bool {
		return e.Kind == history.Transition && e.From == execution.Running && e.Reason == execution.WorkerUnavailable && x.strikes(x.w.database.Worker(e.Worker))
	})
	return func() {
		if err := set(false); err != nil {
			x.w.fail(err.Error())
		}
	}, nil
}

// strikes says whether one of the targets has a name.
func (x *injection) strikes(name string) bool {
	return slices.ContainsFunc(x.targets, func(p *process) bool { return p.name == name })
}

// copyProgram makes a copy that is run in endpoint of the original.
func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, runnable)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if closed := out.Close(); err == nil {
		err = closed
	}
	return err
}

// The modes of a program that can be run, and of one that can't, not even by root.
const (
	runnable    = 0o755
	notRunnable = 0o644
)

func (p *process) setSick(sick bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sick = sick
	if sick {
		return os.Chmod(p.binary, notRunnable)
	}
	return os.Chmod(p.binary, runnable)
}

// launched starts the daemon, also where its machine can't start actions just now.
func (p *process) launched() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.sick {
		return p.daemon.Launch()
	}
	if err := os.Chmod(p.binary, runnable); err != nil {
		return err
	}
	err := p.daemon.Launch()
	if failed := os.Chmod(p.binary, notRunnable); err == nil {
		err = failed
	}
	return err
}

// operate is an operator's act on a worker, as the API makes it. One that has never registered can't be
// operated on.
func (x *injection) operate(p *process, c store.Cordon) bool {
	ctx, cancel := context.WithTimeout(x.w.ctx, x.w.config.Executor.StatementTimeout)
	defer cancel()
	if c.Worker = x.w.database.WorkerID(p.name); c.Worker == 0 {
		return false
	}
	done, err := x.w.store.SetCordon(ctx, c)
	if err != nil && x.w.ctx.Err() == nil {
		x.w.fail("an operator's act was refused: " + err.Error())
	}
	return done && err == nil
}

func injectCordon(x *injection) (func(), error) {
	for _, p := range x.targets {
		if x.operate(p, store.Cordon{On: true, Reason: x.fault.Name}) {
			x.touch()
		}
	}
	return x.uncordon, nil
}

func (x *injection) uncordon() {
	for _, p := range x.targets {
		x.operate(p, store.Cordon{})
	}
}

// injectDrain has an operator drain workers. What supervises the processes starts them again, and the operator
// lifts the cordon then.
func injectDrain(x *injection) (func(), error) {
	for _, p := range x.targets {
		p.mu.Lock()
		p.stopping = true // by itself, and not for a failure
		p.mu.Unlock()
		if x.operate(p, store.Cordon{On: true, Reason: x.fault.Name, Drain: true}) && p.alive() {
			x.touch()
		}
	}
	if x.fault.RestartAfter > 0 {
		x.w.after(x.fault.RestartAfter, x.uncordon)
	}
	x.restartLater()
	return nil, nil
}
