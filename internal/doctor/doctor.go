// Package doctor finds what is wrong with a deployment, and advises what to do.
// Each check is a function of the Deployment, reads nothing else, changes nothing,
// and returns its findings. A check that could not run reports unknown, and why.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/show"
)

// A checkup is one check.
type checkup struct {
	name    string
	network bool // it needs the public address
	stored  bool // it needs the store
	ofRealm bool // it is made for each realm
	whole   bool // it reads the whole store
	limit   time.Duration
	run     func(context.Context, *Deployment) findings
}

// checkups lists the checks in the order of their lines, dependencies first.
var checkups = []checkup{
	{"configuration", false, false, false, false, 0, checkConfiguration},
	{"files", false, false, false, false, 0, checkFiles},
	{"certificate", false, false, true, false, 0, checkCertificate},
	{"listeners", false, false, false, false, 0, checkListeners},
	{"database", false, true, false, false, 20 * time.Second, checkDatabase},
	{"integrity", false, true, false, true, 2 * time.Minute, checkIntegrity},
	{"issuer", false, true, true, false, 0, checkIssuer},
	{"keys", false, true, false, false, 0, checkKeys},
	{"backup", false, false, false, false, 0, checkBackup},
	{"clients", false, true, true, false, 0, checkClients},
	{"secrets", false, true, true, false, 0, checkSecrets},
	{"trusts", false, true, true, false, 0, checkTrusts},
	{"console", false, true, false, false, 0, checkConsole},
	{"demo client", false, true, false, false, 0, checkDemo},
	{"audit log", false, false, false, false, 30 * time.Second, checkAudit},
	{"server", false, false, false, false, 0, checkServer},
	{"public address", true, false, true, false, 30 * time.Second, checkPublic},
	{"clock", false, false, false, false, 20 * time.Second, checkClock},
	{"plain http", true, false, true, false, 0, checkPlainHTTP},
	{"published keys", true, true, false, false, 0, checkPublishedKeys},
	{"proxy", true, false, false, false, 30 * time.Second, checkProxy},
	{"keys of issuers", true, true, true, false, 30 * time.Second, checkIssuerKeys},
}

// checkTime limits a check without a limit of its own.
const checkTime = 10 * time.Second

// Examine runs every check in order, and calls report with each finding.
func (p *Deployment) Examine(ctx context.Context, offline bool, report func(Finding)) (list []Finding) {
	realms := p.realms()
	for _, c := range checkups {
		for _, of := range realms {
			if of != p && !c.ofRealm {
				continue
			}
			var found findings
			switch {
			case offline && c.network:
				found.note("left out: --offline")
			case p.Beside && c.whole:
				found.note("left out beside a running server (mintage doctor)")
			case c.stored && p.Store == nil && c.name != "database":
				found.unknown("see database", "could not be checked: the store does not open")
			default:
				found = of.check(ctx, c)
			}
			for _, f := range found {
				f.Check = c.name
				if of != p {
					f.Check += " of realm " + of.Realm[1:]
				}
				report(f)
				list = append(list, f)
			}
		}
	}
	return list
}

// realms returns the deployment of each realm. The first is p itself, whose clients and
// APIs it reduces to those of the default realm.
func (p *Deployment) realms() []*Deployment {
	list := []*Deployment{p}
	whole := p.Changes
	for _, cfg := range p.Config.Realms {
		of := *p
		of.Config, of.Realm, of.Changes, of.seen = cfg, cfg.Realm, whole.OfRealm(cfg.Realm), nil
		list = append(list, &of)
	}
	p.Changes = whole.OfRealm(p.Realm) // the store may have realms that the configuration has not
	return list
}

// check runs one check within its time limit.
func (p *Deployment) check(ctx context.Context, c checkup) findings {
	limit := cmp.Or(c.limit, checkTime)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan findings, 1)
	go func() { done <- c.run(ctx, p) }()
	select {
	case found := <-done:
		return found
	case <-ctx.Done():
	}
	// Most checks notice the deadline themselves, and report details.
	select {
	case found := <-done:
		return found
	case <-time.After(time.Second):
	}
	return new(findings).unknown("try again; the check waits for something that hangs", "could not be checked: not finished after %s", limit)
}

// Print writes a finding for people.
func Print(w io.Writer, f Finding) {
	fmt.Fprintf(w, "%-8s %s: %s\n", f.Level, f.Check, show.Printable(f.Text))
	if f.Advice != "" {
		fmt.Fprintf(w, "%-8s do: %s\n", "", f.Advice)
	}
}

// Exit statuses, besides 0 and that of a usage error.
const (
	exitFault   = 1
	exitWarning = 3
)

// A Report is the result of all checks, for programs.
type Report struct {
	Verdict  string    `json:"verdict"` // the level of the worst finding
	Exit     int       `json:"exit"`    // the command's exit status
	OK       int       `json:"ok"`
	Notes    int       `json:"notes"`
	Unknown  int       `json:"unknown"`
	Warnings int       `json:"warnings"`
	Faults   int       `json:"faults"`
	Findings []Finding `json:"findings"`
}

// Conclude summarises findings.
func Conclude(list []Finding) Report {
	count := map[string]int{}
	for _, f := range list {
		count[f.Level]++
	}
	r := Report{
		Verdict: levelOK, OK: count[levelOK], Notes: count[levelNote], Unknown: count[levelUnknown],
		Warnings: count[levelWarning], Faults: count[levelFault], Findings: list,
	}
	switch {
	case r.Faults > 0:
		r.Exit, r.Verdict = exitFault, levelFault
	case r.Warnings > 0:
		r.Exit, r.Verdict = exitWarning, levelWarning
	case r.Unknown > 0:
		r.Exit, r.Verdict = exitWarning, levelUnknown
	}
	return r
}

// Complaint summarises what is wrong: "1 fault, 2 warnings"; empty if nothing is.
func (r Report) Complaint() string {
	var parts []string
	add := func(n int, one, more string) {
		if n > 0 {
			parts = append(parts, show.Count(n, one, more))
		}
	}
	add(r.Faults, "fault", "faults")
	add(r.Warnings, "warning", "warnings")
	add(r.Unknown, "check could not be made", "checks could not be made")
	return strings.Join(parts, ", ")
}
