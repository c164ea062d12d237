package explain

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
)

// names of what can be explained.
var explainedNames = map[ExplainedAs]string{
	AsUnknown: "a text of no known form", AsRefresh: "a refresh token", AsAccess: "an access token",
	AsJWT: "a JWT", AsCode: "an authorization code", AsGrant: "a grant", AsDevice: "a device code",
}

// headline is the first sentence.
func (v *Explained) headline() string {
	e := v.Explanation
	name := explainedNames[e.As]
	switch {
	case e.As == AsGrant || e.As == AsUnknown:
	case e.Genuine:
		if e.As == AsJWT {
			name = "an access token (JWT)"
		}
		if e.own() {
			name += " of a client for itself (client_credentials)"
		}
		name += ", authentic"
	case !e.Answer.Known:
		name += " that cannot be checked here"
	default:
		name += ", not authentic"
	}
	return strings.ToUpper(name[:1]) + name[1:] + "."
}

var verdictWords = map[string]string{
	"answered": "It would be answered now", "refused": "It would be refused now", "retry": "The client would be told to try again", "unknown": "What would become of it is not known",
}

// Print writes the explanation for people.
func (v *Explained) Print(w io.Writer) error {
	if v.Explanation == nil && v.session != nil {
		return v.printSession(w)
	}
	if v.request != nil {
		if err := v.printRequest(w); err != nil || v.Explanation == nil {
			return err
		}
		fmt.Fprintf(w, "\nThe grant behind it, as it is now. ")
	} else {
		fmt.Fprintf(w, "%s ", v.headline())
	}
	e, r := v.Explanation, v.read()
	head := verdictWords[r.Verdict]
	if r.Refusal != "" {
		head += ": " + r.Refusal
	}
	fmt.Fprintf(w, "%s.\n\n", head)
	rows := [][2]string{{"why", r.Why}, {"told", r.Told}, {"next", r.Next}}
	for _, n := range v.asked.notes {
		rows = append(rows, [2]string{"pasted", n})
	}
	if err := show.Fields(w, rows); err != nil {
		return err
	}
	for _, part := range []struct {
		title string
		rows  [][2]string
	}{{"token", v.tokenFields()}, {"code", v.codeFields()}, {"grant", v.grantFields()}} {
		if err := printPart(w, part.title, part.rows); err != nil {
			return err
		}
	}
	if err := printLife(w, "life", v.life); err != nil {
		return err
	}
	if v.auditNote != "" && (e.Named || e.own()) {
		fmt.Fprintf(w, "\n%s\n", v.auditNote)
	}
	return nil
}

// printPart prints a titled list, if anything is in it.
func printPart(w io.Writer, title string, rows [][2]string) error {
	for _, r := range rows {
		if r[1] != "" {
			fmt.Fprintf(w, "\n%s\n", title)
			for i := range rows {
				rows[i][0] = "  " + rows[i][0]
			}
			return show.Fields(w, rows)
		}
	}
	return nil
}

func (v *Explained) when(at grant.Instant) string {
	if at == 0 {
		return ""
	}
	return show.Instant(at) + " (" + show.Ago(v.Now, at) + ")"
}

func (v *Explained) keyText() string {
	e := v.Explanation
	switch {
	case e.Key != nil:
		return fmt.Sprintf("%s (%s, %s)", e.Key.ID, e.Key.Purpose, e.Key.Phase)
	case e.Diagnosis.NamesKey:
		return e.Diagnosis.KeyID.String() + " (not in this store)"
	}
	return ""
}

// claims marks a value of a token that is not authenticated.
func (v *Explained) claims(text string) string {
	if text == "" || v.Genuine {
		return text
	}
	return text + " (as it says; not proven)"
}

func (v *Explained) apisText() string { return strings.Join(v.APIs, " ") }

func (v *Explained) tokenFields() [][2]string {
	e := v.Explanation
	if e.As == AsGrant || e.As == AsCode || e.As == AsDevice || e.As == AsUnknown {
		return nil
	}
	rows := [][2]string{{"key", v.keyText()}}
	if j := e.JWT; j != nil {
		rows = append(rows, [2]string{"issuer", v.claims(show.Bounded(j.Issuer))}, [2]string{"type", show.Bounded(j.Type)}, [2]string{"algorithm", show.Bounded(j.Algorithm)},
			[2]string{"client", v.claims(show.Bounded(j.ClientID))}, [2]string{"subject", v.claims(show.Bounded(j.Subject))}, [2]string{"audience", v.claims(show.Bounded(strings.Join(j.Audience, " ")))})
	} else if e.Genuine {
		rows = append(rows, [2]string{"realm", v.by.Realm})
		if e.own() && e.Client != nil {
			rows = append(rows, [2]string{"client", e.Client.ID})
		}
	}
	if e.JWT == nil && len(e.Audience) > 0 {
		rows = append(rows, [2]string{"audience", strings.Join(e.Audience, " ")})
	}
	rows = append(rows, [2]string{"refused by", strings.Join(e.refusedBy(), " ")})
	if e.own() {
		rows = append(rows, [2]string{"id", e.Token.GrantID.String()})
	}
	if !e.Named {
		return append(rows, [2]string{"scope", v.claims(show.Bounded(e.Scope))}, [2]string{"apis", v.apisText()}, [2]string{"expires", v.claims(v.when(e.Token.ExpiresAt))})
	}
	generation := fmt.Sprint(e.Token.Generation)
	if e.Grant != nil {
		standing := e.Standing()
		if e.As != AsRefresh {
			standing = map[string]string{"present": "of the present pair", "spent": "of an earlier pair", "ahead": "ahead"}[standing]
		}
		generation += fmt.Sprintf(", %s: the grant is at %d", standing, e.Grant.Generation)
	}
	return append(rows, [2]string{"grant", v.claims(e.Token.GrantID.String())}, [2]string{"generation", v.claims(generation)}, [2]string{"scope", e.Scope}, [2]string{"apis", v.apisText()},
		[2]string{"issued", v.claims(v.when(e.Token.IssuedAt))}, [2]string{"expires", v.claims(v.when(e.Token.ExpiresAt))})
}

func (v *Explained) codeFields() [][2]string {
	e := v.Explanation
	if e.As != AsCode {
		return nil
	}
	rows := [][2]string{{"key", v.keyText()}}
	c := e.Code
	if c == nil {
		return rows
	}
	pkce, redirect, redeemed, future := "no challenge", cmp.Or(e.RedirectURI, "none of those that its client has now"), "no", c.GrantID.String()
	if c.Challenged {
		pkce = "S256 challenge"
	}
	if e.Grant != nil {
		redeemed, future = "yes: grant "+future, ""
	}
	return append(rows, [2]string{"redeemed", redeemed}, [2]string{"client", c.ClientID}, [2]string{"subject", c.Subject}, [2]string{"scope", string(c.Scope)}, [2]string{"apis", v.apisText()},
		[2]string{"redirect uri", redirect}, [2]string{"pkce", pkce}, [2]string{"authenticated", show.Instant(c.AuthTime)},
		[2]string{"issued", v.when(c.AuthorizedAt)}, [2]string{"expires", v.when(c.ExpiresAt)}, [2]string{"would make grant", future})
}

func (v *Explained) grantFields() [][2]string {
	e := v.Explanation
	g := e.Grant
	if g == nil {
		if e.Named && e.Code == nil {
			return [][2]string{{"id", e.Token.GrantID.String()}, {"row", "there is none in this store"}}
		}
		return nil
	}
	client := g.ClientID + ", which is not in this store"
	if e.Client != nil {
		client = fmt.Sprintf("%s (%s), %s", g.ClientID, e.Client.Name, e.Client.State)
	}
	state := g.State.String()
	if g.State == grant.Revoked {
		state += ": " + g.Reason.String()
	}
	return [][2]string{
		{"id", g.ID.String()}, {"realm", v.otherRealm()}, {"state", state}, {"client", client}, {"subject", g.Subject}, {"scope", string(g.Scope)}, {"apis", strings.Join(show.APIs(g.APIs[:], g.Realm, e.Directory.APIs), " ")}, {"claims", g.Claims},
		{"session", v.sessionText()}, {"authenticated", show.Instant(g.AuthTime)}, {"authorized", v.when(g.AuthorizedAt)}, {"generation", fmt.Sprint(g.Generation)}, {"holders", v.holders()},
		{"last rotation", v.when(g.RotatedAt)}, {"expires", v.when(g.ExpiresAt)}, {"access ended until", v.when(g.AccessFloor)}, {"row kept until", v.when(g.DeleteAfter)},
	}
}

// otherRealm is the realm of what is explained, unless it is the default one.
func (v *Explained) otherRealm() string {
	if realm := v.by.Config.Realm; realm != oauth.DefaultRealm {
		return realm
	}
	return ""
}

func printLife(w io.Writer, title string, life []adminapi.LifeEntry) error {
	if len(life) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\n%s\n", title)
	var rows [][]string
	for _, l := range life {
		at := "?"
		if l.At != nil {
			at = l.At.UTC().Format(time.RFC3339)
		}
		rows = append(rows, []string{"  " + at, l.What, show.OrDash(l.Actor), show.OrDash(l.Detail)})
	}
	return show.Table(w, "  AT|EVENT|ACTOR|DETAIL", rows)
}

func (v *Explained) printRequest(w io.Writer) error {
	q := v.request
	if !q.known() {
		fmt.Fprintf(w, "A request of which nothing is recorded here.\n\n")
		why := cmp.Or(v.auditNote, "it is not in the audit log "+v.by.Config.AuditDirectory())
		if dir := v.by.Config.AuditDirectory(); dir != "" && auditMissing(dir) {
			why = "there is no audit log at " + dir
		}
		if q.log != nil {
			why += ", and not in the log: " + q.log.Name
		}
		return show.Fields(w, [][2]string{{"why", why}, {"next", v.unknownAdvice()}})
	}
	fmt.Fprintf(w, "A request.\n\n")
	rows := [][2]string{{"request", q.id}}
	if reason := q.refusal(); reason != "" {
		if known, ok := wordsOf(reason); ok {
			rows = append(rows, [2]string{"refused", reason + ": " + known.why}, [2]string{"next", known.next})
		}
	} else if defect := q.defect(); defect != "" {
		rows = append(rows, [2]string{"refused", defect}, [2]string{"next", adviceOn(defect)})
	}
	for _, hint := range q.hints {
		rows = append(rows, [2]string{"known", hint})
	}
	if len(q.others) > 0 {
		rows = append(rows, [2]string{"other grants", strings.Join(q.others, " ")})
	}
	if err := show.Fields(w, rows); err != nil {
		return err
	}
	if len(q.lines()) > 0 {
		fmt.Fprintf(w, "\nlog (%s)\n", q.log.Name)
		var lines [][]string
		for _, l := range q.lines() {
			lines = append(lines, []string{"  " + l.Time, l.Level, l.Message, logDetail(l)})
		}
		if err := show.Table(w, "  AT|LEVEL|MESSAGE|DETAIL", lines); err != nil {
			return err
		}
	}
	var entries []adminapi.LifeEntry
	for _, a := range q.audit {
		entries = append(entries, entryOf(a))
	}
	return printLife(w, "audit log", entries)
}

// logDetail formats the members of a log line besides its message.
func logDetail(l adminapi.LogLine) string {
	var parts []string
	for _, m := range [][2]string{{"status", fmt.Sprint(l.Status)}, {"reason", l.Reason}, {"error", l.Error}, {"client", l.ClientID},
		{"grant type", l.GrantType}, {"from", l.RemoteIP}, {"grant", l.GrantID}} {
		if strings.Trim(m[1], "0") != "" {
			parts = append(parts, m[0]+" "+show.Bounded(m[1]))
		}
	}
	if l.Took > 0 {
		parts = append(parts, fmt.Sprintf("%.3g ms", l.Took))
	}
	return strings.Join(parts, ", ")
}

// MarshalJSON is the explanation for programs.
func (v *Explained) MarshalJSON() ([]byte, error) {
	out := adminapi.Explanation{Kind: "request", Realm: v.otherRealm(), Notes: v.asked.notes, Holders: v.holders(), Life: v.life, Trail: v.auditNote}
	if q := v.request; q != nil {
		out.Request = &adminapi.ExplainedRequest{ID: q.id, Refusal: q.refusal(), Defect: q.defect(), Hints: q.hints, Audit: q.audit, Log: q.lines()}
	}
	if s := v.session; s != nil {
		out.Session = s.json(v.by.now())
		if v.request == nil && v.Explanation == nil {
			out.Kind = "session"
		}
	}
	e := v.Explanation
	if e == nil {
		return json.Marshal(out)
	}
	if v.request == nil {
		out.Kind = string(e.As)
	}
	r := v.read()
	out.Now = &r
	if e.As != AsGrant && (e.Answer.Known || e.Genuine) {
		out.Genuine = &e.Genuine
	}
	if e.As != AsGrant && e.As != AsCode && e.As != AsDevice {
		t := &adminapi.ExplainedToken{Key: v.keyText(), Fault: string(e.Diagnosis.Fault), Standing: e.Standing(), Scope: e.Scope, APIs: e.APIs, Audience: e.Audience, RefusedBy: e.refusedBy(),
			IssuedAt: show.JSONInstant(e.Token.IssuedAt), ExpiresAt: show.JSONInstant(e.Token.ExpiresAt), Generation: e.Token.Generation}
		if e.Named || e.own() {
			t.GrantID = e.Token.GrantID.String()
		}
		if e.JWT != nil {
			t.Fault, t.Issuer = string(e.JWT.Fault), e.JWT.Issuer
		}
		out.Token = t
	}
	if c := e.Code; c != nil {
		out.Code = &adminapi.ExplainedCode{
			ClientID: c.ClientID, Subject: c.Subject, Scope: string(c.Scope), RedirectURI: e.RedirectURI, APIs: e.APIs, PKCE: c.Challenged, Redeemed: e.Grant != nil,
			IssuedAt: show.JSONInstant(c.AuthorizedAt), ExpiresAt: show.JSONInstant(c.ExpiresAt),
		}
	}
	if c := e.Client; c != nil {
		out.Client = &adminapi.ExplainedClient{ID: c.ID, Name: c.Name, State: string(c.State)}
	}
	if e.Grant != nil {
		g := show.GrantAt(*e.Grant, e.Directory, e.Now)
		out.Grant = &g
	}
	return json.Marshal(out)
}
