package vary

import (
	"math/rand/v2"
	"slices"
	"testing"

	"handoff/chaos/fault"
	"handoff/chaos/scenario"
	"handoff/core/config"
)

func TestEveryKeyIsDrawn(t *testing.T) {
	var drawn []string
	for _, g := range keyGroups() {
		for _, k := range g {
			drawn = append(drawn, k.path)
		}
	}
	for _, l := range config.Leaves() {
		if l.Path != "profile" && !slices.Contains(drawn, l.Path) {
			t.Errorf("no varied run draws %s: add it to a group in config.go", l.Path)
		}
	}
}

// Drawn values are adjusted until they are consistent, so that no draw is discarded.
func TestDrawnConfigurationIsValid(t *testing.T) {
	for seed := range uint64(500) {
		source := rand.New(rand.NewPCG(seed, 1))
		d := &draw{Dice: &fault.Dice{Choose: source.IntN}, s: &scenario.Scenario{}}
		c := config.Default(config.Profiles()[seed%2])
		for _, g := range keyGroups() {
			for _, k := range g {
				if d.oneIn(2) {
					k.draw(d, &c)
				}
			}
			d.fitConfig(&c)
		}
		if problems := c.Validate(); len(problems) > 0 {
			t.Fatalf("seed %d: %v", seed, problems)
		}
	}
}
