package console

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
)

// overviewPages are the pages about the deployment as a whole.
type overviewPages struct{ *Console }

// An overviewPage shows what needs attention, the traffic, and how many clients, operators
// and tokens there are.
type overviewPage struct {
	Attention []attention
	Checkup   *checkupView // nil: no server runs in this process
	Traffic   *trafficView // nil: no server runs in this process
	Counts    []count
	Done      string
}

// An attention is something that an operator should look at.
type attention struct {
	Kind    string // a text of the template
	Name    string
	At      *time.Time
	Command string
}

// soon is how long before its expiry the overview lists a token or a secret.
const soon = 30 * 24 * time.Hour

func (c overviewPages) overview(ctx context.Context, r *request) (reply, error) {
	p := overviewPage{Done: r.URL.Query().Get("done")}
	if r.all() {
		if err := c.deployment(ctx, r, &p); err != nil {
			return reply{}, err
		}
	}
	clients, err := c.secretsThatEnd(ctx, r, &p)
	p.Counts = append([]count{clients}, p.Counts...)
	return reply{page: p}, err
}

// deployment adds the parts that belong to no realm.
func (c overviewPages) deployment(ctx context.Context, r *request, p *overviewPage) (err error) {
	if p.Checkup, err = c.checkup(ctx, r); err != nil {
		return err
	}
	if p.Traffic, err = c.traffic(ctx, r); err != nil {
		return err
	}
	var of operatorsPage
	if err := c.get(ctx, r, &of, nil, "operators"); err != nil {
		return err
	}
	admins := 0
	for _, o := range of.Operators {
		if o.Role == "admin" && o.Realm == "" {
			admins++
		}
		if o.SeenAt == nil {
			p.Attention = append(p.Attention, attention{"never", o.Name, o.CreatedAt, "mintage console invite " + quote(o.Name)})
		}
	}
	if admins < 2 && !c.Dev {
		p.Attention = append(p.Attention, attention{"alone", "", nil, "mintage operator add NAME --role admin"})
	}
	if err := c.get(ctx, r, &of, nil, "admin-tokens"); err != nil {
		return err
	}
	for _, t := range of.Tokens {
		if t.ExpiresAt != nil && t.ExpiresAt.Sub(c.Now()) < soon {
			p.Attention = append(p.Attention, attention{"token", t.Name, t.ExpiresAt, tokenCommand(t)})
		}
	}
	p.Counts = []count{{Kind: "operators", N: len(of.Operators)}, {Kind: "tokens of the admin API", N: len(of.Tokens)}}
	return nil
}

// overviewClients is how many clients the overview reads. The checkup reads all.
const overviewClients = 250

// secretsThatEnd adds the enabled clients whose secrets all expire soon, and counts the
// clients that it has read.
func (c overviewPages) secretsThatEnd(ctx context.Context, r *request, p *overviewPage) (count, error) {
	var answer struct {
		Clients []struct {
			ID, Name string
			Secrets  []adminapi.Secret
		}
		Next string
	}
	query := url.Values{"limit": {strconv.Itoa(overviewClients)}, "state": {"enabled"}}
	if err := c.get(ctx, r, &answer, query, "clients"); err != nil {
		return count{}, err
	}
	for _, k := range answer.Clients {
		var last *time.Time
		for _, s := range k.Secrets {
			if s.ExpiresAt == nil {
				last = nil
				break
			}
			if last == nil || s.ExpiresAt.After(*last) {
				last = s.ExpiresAt
			}
		}
		if last != nil && last.Sub(c.Now()) < soon {
			p.Attention = append(p.Attention, attention{"secret", cmp.Or(k.Name, k.ID), last, r.mintage("client secret add", quote(k.ID))})
		}
	}
	return count{Kind: "clients", N: len(answer.Clients), More: answer.Next != ""}, nil
}

// A checkupView is a checkup as pages show it.
type checkupView struct {
	adminapi.Checkup
	Bad     []adminapi.Finding // those that need attention, the worst first
	Minutes int                // since it ended
}

// checkup returns the last checkup of the server.
func (c overviewPages) checkup(ctx context.Context, r *request) (*checkupView, error) {
	var v checkupView
	if err := c.get(ctx, r, &v.Checkup, nil, "checkup"); isKind(err, "no-server") {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if v.At != nil {
		v.Minutes = int(c.Now().Sub(*v.At) / time.Minute)
	}
	for _, level := range []string{"fault", "warning", "unknown"} {
		for _, f := range v.Findings {
			if f.Level == level {
				v.Bad = append(v.Bad, f)
			}
		}
	}
	return &v, nil
}

// A checkupPage has all findings of the last checkup.
type checkupPage struct {
	Checkup *checkupView
	Command string
}

func (c overviewPages) checkupFindings(ctx context.Context, r *request) (reply, error) {
	v, err := c.checkup(ctx, r)
	if v == nil && err == nil {
		err = errNotFound
	}
	return reply{page: checkupPage{v, "mintage doctor --last"}}, err
}

// checkNow starts a checkup of the server. A checkup changes nothing.
func (c overviewPages) checkNow(ctx context.Context, r *request) (reply, error) {
	err := c.post(ctx, r, nil, nil, "checkup")
	return reply{to: "/?done=checkup"}, err
}

// A trafficView shows the traffic of a period as charts.
type trafficView struct {
	Period  string
	Periods []string
	Good    []chart // series of successes
	Errors  []chart // causes of errors, the most frequent first
	Command string
}

// A chart is a row of bars. Its SVG path is one unit wide for each step, and chartHeight
// high.
type chart struct {
	Name        string
	Total, Most uint64
	Width       int
	Path        string
	From, To    time.Time
}

const chartHeight = 100

// good are the series that are shown even if nothing was counted.
var good = []string{"requests", "refreshes", "logins"}

func (c overviewPages) traffic(ctx context.Context, r *request) (*trafficView, error) {
	v := trafficView{Period: r.URL.Query().Get("period"), Periods: []string{"hour", "day", "week"}}
	if !slices.Contains(v.Periods, v.Period) {
		v.Period = "day"
	}
	v.Command = "mintage traffic --period " + v.Period
	var answer adminapi.Traffic
	if err := c.get(ctx, r, &answer, url.Values{"period": {v.Period}}, "traffic"); isKind(err, "no-server") {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	for _, s := range answer.Series {
		switch drawn := draw(s, answer); {
		case s.Error && s.Total > 0:
			v.Errors = append(v.Errors, drawn)
		case slices.Contains(good, s.Name):
			v.Good = append(v.Good, drawn)
		}
	}
	slices.SortStableFunc(v.Errors, func(a, b chart) int { return cmp.Compare(b.Total, a.Total) })
	return &v, nil
}

// draw draws the counts of a series.
func draw(s adminapi.Series, of adminapi.Traffic) chart {
	c := chart{Name: s.Name, Total: s.Total, Width: len(s.Counts), From: of.From, To: of.From.Add(time.Duration(of.Step*len(s.Counts)) * time.Second)}
	if len(s.Counts) > 0 {
		c.Most = slices.Max(s.Counts)
	}
	var path strings.Builder
	for i, n := range s.Counts {
		if n == 0 {
			continue
		}
		// Draw a bar of at least 3, so that it is visible.
		height := max(3, int(n*chartHeight/c.Most))
		fmt.Fprintf(&path, "M%d %dh1v%dh-1z", i, chartHeight-height, height)
	}
	c.Path = path.String()
	return c
}

// A settingsPage shows the settings of the server that answers.
type settingsPage struct {
	adminapi.Settings
	Groups  []settingsGroup
	Command string
}

// A settingsGroup has the settings of one title.
type settingsGroup struct {
	Title    string
	Settings []shownSetting
	Given    bool // one of them is not the default
}

type shownSetting struct {
	adminapi.SettingValue
	OnReload, OnRestart bool // a reload, or a restart, changes the value
}

func (c overviewPages) settings(ctx context.Context, r *request) (reply, error) {
	p := settingsPage{Command: "mintage config show --running"}
	err := c.get(ctx, r, &p.Settings, nil, "settings")
	listed := p.Settings.Settings
	// Add changes that are no setting in force: a realm, or a setting of one realm.
	for _, name := range slices.Concat(p.OnReload, p.OnRestart) {
		if !slices.ContainsFunc(listed, func(s adminapi.SettingValue) bool { return s.Name == name }) {
			listed = append(listed, adminapi.SettingValue{Name: name, Group: "Realms"})
		}
	}
	for _, s := range listed {
		i := slices.IndexFunc(p.Groups, func(g settingsGroup) bool { return g.Title == s.Group })
		if i < 0 {
			i = len(p.Groups)
			p.Groups = append(p.Groups, settingsGroup{Title: s.Group})
		}
		g := &p.Groups[i]
		v := shownSetting{s, slices.Contains(p.OnReload, s.Name), slices.Contains(p.OnRestart, s.Name)}
		g.Settings, g.Given = append(g.Settings, v), g.Given || s.Given || v.OnReload || v.OnRestart
	}
	return reply{page: p}, err
}

// A count is a number of objects of a kind. If More is set, there are more: counting
// stopped.
type count struct {
	Kind string
	N    int
	More bool
}

// An operatorsPage shows the operators, the admin tokens and the sessions.
type operatorsPage struct {
	Operators []adminapi.Operator
	Tokens    []adminapi.Token `json:"admin_tokens"`
	Sessions  []adminapi.ConsoleSession
	Admin     bool   // the viewer may make changes
	Present   string // id of the viewer's session
	Ended     bool   // a session was ended
	BuiltIn   bool   // operators are built-in users
}
