package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
)

// The pages contain the program's output.
func TestThePagesHaveTheFigures(t *testing.T) {
	page := func(name string) string {
		text, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(string(text)), " ")
	}
	decision, model := page("decisions/0003-same-pair-again.md"), page("explanation/threat-model.md")
	for _, table := range []string{sharingTable(), theftTable()} {
		if !strings.Contains(decision, strings.Join(strings.Fields(table), " ")) {
			t.Errorf("decision 3 does not have this table:\n%s", table)
		}
	}
	for _, sentence := range []string{
		fmt.Sprintf("with probability %.0f %% (%.0f %% with a window of ten seconds)", 100*usedOnce(rules[1].policy()), 100*usedOnce(rules[0].policy())),
		fmt.Sprintf("with probability %.0f %% under a grace of 24 hours", 100*usedOnce(rules[3].policy())),
	} {
		if !strings.Contains(model, sentence) {
			t.Errorf("the threat model does not say %q", sentence)
		}
	}
}

// Processes that share a token file, each with calls in any order and at any rate, stay
// logged in with a grace of a day, and not without one.
func TestNobodyIsLoggedOutWithinTheGrace(t *testing.T) {
	strict, graced := rules[1].policy(), rules[3].policy()
	refused := 0
	for _, processes := range []int{2, 5, 24} {
		for _, every := range []time.Duration{20 * time.Second, time.Minute, 5 * time.Minute, 20 * time.Minute, time.Hour} {
			for user := range uint64(10) {
				for name, next := range map[string]pause{"at random": poisson(every), "steadily": steady(every)} {
					if at := share(graced, processes, next, day, rand.New(rand.NewPCG(user, 2))); at < day {
						t.Errorf("%d processes that call every %s, %s: logged out after %s", processes, every, name, at)
					}
					if share(strict, processes, next, day, rand.New(rand.NewPCG(user, 2))) < day {
						refused++
					}
				}
			}
		}
	}
	if refused < 200 {
		t.Errorf("only %d of 300 are logged out without a grace: the simulation shows nothing", refused)
	}
}

// A process that returns with a token older than the grace revokes the grant.
func TestATokenOlderThanTheGraceEndsTheGrant(t *testing.T) {
	p := rules[3].policy()
	for _, c := range []struct {
		away time.Duration
		ends bool
	}{{day - time.Millisecond, false}, {day, true}} {
		g, active := login(p)
		sleeper := active
		for active.access < start.Add(c.away) {
			if !active.refresh(&g, p, active.access) {
				t.Fatal("the active process is refused")
			}
		}
		if answered := sleeper.refresh(&g, p, start.Add(c.away)); answered == c.ends || (g.State == grant.Revoked) != c.ends {
			t.Errorf("after %s: answered %t, the grant is %s", c.away, answered, g.State)
		}
	}
}
