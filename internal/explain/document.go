package explain

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
)

// parts returns the explanation in the order in which it is shown.
func (v *Explained) parts() []part {
	e, s, q := v.Explanation, v.session, v.request
	kind, authentic := "request", (*bool)(nil)
	switch {
	case q != nil:
	case e != nil:
		kind = string(e.As)
	case s != nil:
		kind = "session"
	}
	if e != nil && e.As != AsGrant && (e.Answer.Known || e.Authentic) {
		authentic = &e.Authentic
	}
	list := []part{{facts: []fact{member("kind", kind), member("realm", v.otherRealm()), member("genuine", authentic), member("notes", v.input.notes)}}}
	if q != nil {
		list = append(list, v.requestParts()...)
	}
	if e != nil {
		list = append(list, v.verdictPart(), v.tokenPart(), v.codePart(), v.clientPart(), v.grantPart())
	}
	if s != nil {
		list = append(list, v.sessionParts()...)
	}
	life := part{head: "life", table: lifeTable(v.life), name: "life", value: v.life}
	note := part{facts: []fact{member("holders", v.holders()), member("trail", v.auditNote)}}
	if e != nil && (e.Named || e.isService()) {
		note.head = v.auditNote
	}
	return append(list, life, note)
}

// Print writes the explanation for people. The head of a part is its title, unless it
// ends with an empty line: then it is a paragraph.
func (v *Explained) Print(w io.Writer) error {
	for _, p := range v.parts() {
		titled, indent := !strings.HasSuffix(p.head, "\n\n"), ""
		if titled {
			indent = "  "
		}
		var rows [][2]string
		for _, f := range p.facts {
			if f.label != "" && f.text != "" {
				rows = append(rows, [2]string{indent + f.label, f.text})
			}
		}
		switch {
		case p.head == "", p.name != "" && len(rows)+len(p.table.rows) == 0:
			continue
		case titled:
			fmt.Fprintf(w, "\n%s\n", p.head)
		default:
			fmt.Fprint(w, p.head)
		}
		if err := show.Fields(w, rows); err != nil {
			return err
		}
		for _, r := range p.table.rows {
			r[0] = indent + r[0]
		}
		if len(p.table.rows) > 0 {
			if err := show.Table(w, indent+p.table.columns, p.table.rows); err != nil {
				return err
			}
		}
	}
	return nil
}

// MarshalJSON encodes the explanation for programs as an adminapi.Explanation: with the
// members in the order of that type, and without empty ones.
func (v *Explained) MarshalJSON() ([]byte, error) {
	whole := map[string]any{}
	for _, p := range v.parts() {
		members := whole
		if p.name != "" {
			members = map[string]any{}
		}
		for _, f := range p.facts {
			if f.name != "" {
				members[f.name] = f.value
			}
		}
		if p.value != nil {
			whole[p.name] = p.value
		} else if p.name != "" && len(members) > 0 {
			whole[p.name] = members
		}
	}
	text, err := json.Marshal(whole)
	if err != nil {
		return nil, err
	}
	var answer adminapi.Explanation
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&answer); err != nil {
		return nil, err
	}
	return json.Marshal(answer)
}

// explainedNames are the names in a headline.
var explainedNames = map[ExplainedAs]string{
	AsUnknown: "a text of no known form", AsRefresh: "a refresh token", AsAccess: "an access token",
	AsJWT: "a JWT", AsCode: "an authorization code", AsGrant: "a grant", AsDevice: "a device code",
}

// headline returns the first sentence of the explanation.
func (v *Explained) headline() string {
	e := v.Explanation
	name := explainedNames[e.As]
	switch {
	case v.request != nil:
		return "\nThe grant behind it, as it is now."
	case e.As == AsGrant || e.As == AsUnknown:
	case e.Authentic:
		if e.As == AsJWT {
			name = "an access token (JWT)"
		}
		switch {
		case e.isService() && e.Trust != "":
			name += " of a client for itself (trust " + e.Trust + ")"
		case e.isService():
			name += " of a client for itself (client_credentials)"
		}
		if e.Token.Exchanged() {
			name += " that its client got in exchange (RFC 8693)"
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
	"answered": "It would be answered now", "refused": "It would be refused now", "retry": "The client would get 503 and should retry", "unknown": "The outcome is unknown",
}

func (v *Explained) verdictPart() part {
	r := v.read()
	head := v.headline() + " " + verdictWords[r.Verdict]
	if r.Refusal != "" {
		head += ": " + r.Refusal
	}
	facts := []fact{member("verdict", r.Verdict), member("refusal", r.Refusal), both("why", "why", r.Why), both("told", "told", r.Response), both("next", "next", r.Next)}
	return part{head: head + ".\n\n", name: "now", facts: append(facts, v.pasted()...)}
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

// claims labels a value as not proven, unless the token is authentic.
func (v *Explained) claims(text string) string {
	if text == "" || v.Authentic {
		return text
	}
	return show.Bounded(text) + " (as it says; not proven)"
}

func (v *Explained) tokenPart() part {
	e := v.Explanation
	if e.As == AsGrant || e.As == AsCode || e.As == AsDevice {
		return part{}
	}
	t := e.Token
	facts := []fact{both("key", "key", v.keyText()), member("fault", e.Diagnosis.Fault)}
	if j := e.JWT; j != nil {
		facts[1].value = j.Fault
		facts = append(facts, fact{"issuer", v.claims(j.Issuer), "issuer", j.Issuer}, row("type", show.Bounded(j.Type)), row("algorithm", show.Bounded(j.Algorithm)),
			row("client", v.claims(j.ClientID)), row("subject", v.claims(j.Subject)), row("audience", v.claims(strings.Join(j.Audience, " "))), member("audience", e.Audience))
	} else {
		if e.Authentic {
			facts = append(facts, row("realm", v.by.Realm))
		}
		if e.isService() && e.Client != nil {
			facts = append(facts, row("client", e.Client.ID))
		}
		if t.Exchanged() {
			facts = append(facts, row("client", t.ClientID))
		}
		facts = append(facts, fact{"audience", strings.Join(e.Audience, " "), "audience", e.Audience})
	}
	facts = append(facts, fact{"refused by", strings.Join(e.refusedBy(), " "), "refused_by", e.refusedBy()})
	if list := e.actors(); len(list) > 0 {
		facts = append(facts, fact{"acts", v.claims(strings.Join(list, ", for ")), "actors", list})
	}
	if t.Exchanged() {
		facts = append(facts, fact{"id", v.claims(t.Serial.String()), "id", t.Serial.String()})
	}
	issued := ""
	switch {
	case e.isService():
		facts = append(facts, both("id", "grant_id", t.GrantID.String()))
	case e.Named:
		generation := fmt.Sprint(t.Generation)
		if e.Grant != nil {
			standing := e.Standing()
			if e.As != AsRefresh {
				standing = map[string]string{"present": "of the present pair", "spent": "of an earlier pair", "ahead": "ahead"}[standing]
			}
			generation += fmt.Sprintf(", %s: the grant is at %d", standing, e.Grant.Generation)
		}
		id := t.GrantID.String()
		issued = v.claims(v.when(t.IssuedAt))
		facts = append(facts, fact{"grant", v.claims(id), "grant_id", id}, fact{"generation", v.claims(generation), "generation", t.Generation}, member("standing", e.Standing()))
	}
	p := part{head: "token", name: "token", facts: append(facts, fact{"scope", v.claims(e.Scope), "scope", e.Scope}, fact{"apis", strings.Join(v.APIs, " "), "apis", v.APIs},
		row("bound to key", v.claims(e.bound().String())), fact{"issued", issued, "issued_at", show.JSONInstant(t.IssuedAt)}, fact{"expires", v.claims(v.when(t.ExpiresAt)), "expires_at", show.JSONInstant(t.ExpiresAt)})}
	if e.As == AsUnknown {
		p.head = "" // a text of no known form has no fields
	}
	return p
}

// actors lists the actors of an access token (RFC 8693 section 4.1), the current one first.
func (e *Explanation) actors() (list []string) {
	for _, a := range e.Token.Actors {
		list = append(list, strings.TrimSpace(a.Issuer+" "+a.Subject))
	}
	return list
}

func (v *Explained) codePart() part {
	e := v.Explanation
	if e.As != AsCode {
		return part{}
	}
	p := part{head: "code", name: "code", facts: []fact{row("key", v.keyText())}}
	c := e.Code
	if c == nil {
		return p
	}
	pkce, redeemed, future := "no challenge", "no", c.GrantID.String()
	if c.Challenged {
		pkce = "S256 challenge"
	}
	if e.Grant != nil {
		redeemed, future = "yes: grant "+future, ""
	}
	p.facts = append(p.facts, fact{"redeemed", redeemed, "redeemed", e.Grant != nil}, both("client", "client_id", c.ClientID), both("subject", "subject", c.Subject),
		fact{"scope", string(c.Scope), "scope", c.Scope}, fact{"apis", strings.Join(v.APIs, " "), "apis", v.APIs},
		fact{"redirect uri", cmp.Or(e.RedirectURI, "none of those that its client has now"), "redirect_uri", e.RedirectURI}, fact{"pkce", pkce, "pkce", c.Challenged}, row("bound to key", e.bound().String()),
		row("authenticated", show.Instant(c.AuthTime)), row("acr of its tokens", issuer.ClassOf(c.Facts)), fact{"issued", v.when(c.AuthorizedAt), "issued_at", show.JSONInstant(c.AuthorizedAt)},
		fact{"expires", v.when(c.ExpiresAt), "expires_at", show.JSONInstant(c.ExpiresAt)}, row("would make grant", future))
	return p
}

// clientPart returns the client, for programs: people see it in the part about the grant.
func (v *Explained) clientPart() part {
	if c := v.Client; c != nil {
		return part{name: "client", facts: []fact{member("id", c.ID), member("name", c.Name), member("state", c.State)}}
	}
	return part{}
}

func (v *Explained) grantPart() part {
	e := v.Explanation
	g := e.Grant
	p := part{head: "grant", name: "grant"}
	if g == nil {
		if e.Named && e.Code == nil {
			where := "store"
			if e.MadeIn != "" {
				where = "realm"
			}
			p.facts = []fact{row("id", e.Token.GrantID.String()), row("row", "there is none in this "+where)}
		}
		return p
	}
	client := g.ClientID + ", which is not in this store"
	if e.Client != nil {
		client = fmt.Sprintf("%s (%s), %s", g.ClientID, e.Client.Name, e.Client.State)
		if e.Client.Profile != "" {
			client += ", follows the profile " + string(e.Client.Profile)
		}
	}
	state := g.State.String()
	if g.State == grant.Revoked {
		state += ": " + g.Reason.String()
	}
	p.value = show.GrantAt(*g, e.Directory, v.by.lives(), e.Now)
	p.facts = []fact{
		row("id", g.ID.String()), row("realm", v.otherRealm()), row("state", state), row("client", client), row("subject", g.Subject), row("scope", string(g.Scope)), row("apis", strings.Join(show.APIs(g.APIs[:], g.Realm, e.Directory.APIs), " ")), row("claims", g.Claims),
		row("session", v.sessionText()), row("authenticated", show.Instant(g.AuthTime)), row("acr of its tokens", issuer.ClassOf(g.Facts)), row("authorized", v.when(g.AuthorizedAt)), row("generation", fmt.Sprint(g.Generation)), row("bound to key", g.JKT.String()), row("holders", v.holders()),
		row("last rotation", v.when(g.RotatedAt)), row("expires", v.when(g.ExpiresAt)), row("access ended until", v.when(g.AccessFloor)), row("row kept until", v.when(g.DeleteAfter)),
	}
	return p
}

// otherRealm returns the realm of the explanation, or "" for the default realm.
func (v *Explained) otherRealm() string {
	if realm := v.by.Config.Realm; realm != oauth.DefaultRealm {
		return realm
	}
	return ""
}

func lifeTable(life []adminapi.LifeEntry) table {
	t := table{columns: "AT|EVENT|ACTOR|DETAIL"}
	for _, l := range life {
		at := "?"
		if l.At != nil {
			at = l.At.UTC().Format(time.RFC3339)
		}
		t.rows = append(t.rows, []string{at, l.What, show.OrDash(l.Actor), show.OrDash(l.Detail)})
	}
	return t
}

func (v *Explained) requestParts() []part {
	q := v.request
	reason, defect := q.refusal(), q.defect()
	p := part{head: "A request.\n\n", name: "request", facts: []fact{member("id", q.id), member("refusal", reason), member("defect", defect), member("hints", q.hints), member("audit", q.audit)}}
	if !q.known() {
		p.head = "A request of which nothing is recorded here.\n\n"
		why := cmp.Or(v.auditNote, "it is not in the audit log "+v.by.Config.AuditDirectory())
		if dir := v.by.Config.AuditDirectory(); dir != "" && auditMissing(dir) {
			why = "there is no audit log at " + dir
		}
		if q.log != nil {
			why += ", and not in the log: " + q.log.Name
		}
		p.facts = append(p.facts, member("log", nil), row("why", why), row("next", v.unknownAdvice()))
		return []part{p}
	}
	p.facts = append(p.facts, row("request", q.id))
	if words, ok := wordsOf(reason); ok {
		p.facts = append(p.facts, row("refused", reason+": "+words.why), row("next", words.next))
	} else if reason == "" && defect != "" {
		p.facts = append(p.facts, row("refused", defect), row("next", adviceOn(defect)))
	}
	for _, hint := range q.hints {
		p.facts = append(p.facts, row("known", hint))
	}
	lines, logged, recorded := q.lines(), table{columns: "AT|LEVEL|MESSAGE|DETAIL"}, []adminapi.LifeEntry(nil)
	p.facts = append(p.facts, row("other grants", strings.Join(q.others, " ")), member("log", lines))
	parts := []part{p}
	for _, l := range lines {
		logged.rows = append(logged.rows, []string{l.Time, l.Level, l.Message, logDetail(l)})
	}
	if len(lines) > 0 {
		parts = append(parts, part{head: fmt.Sprintf("log (%s)", q.log.Name), table: logged})
	}
	for _, a := range q.audit {
		recorded = append(recorded, entryOf(a))
	}
	if len(recorded) > 0 {
		parts = append(parts, part{head: "audit log", table: lifeTable(recorded)})
	}
	return parts
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
