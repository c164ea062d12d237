package conformance_test

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// badForm is a failed authentication by form parameters: 400 without a challenge, because
// a Basic challenge would be wrong (RFC 9110 section 15.5.2).
func badForm(step, name string, spoil func(*flow)) row {
	return row{
		step: step, name: name, status: http.StatusBadRequest, code: "invalid_client",
		description: "client authentication failed", spoil: spoil,
	}
}

// badHeader is a failed authentication by the Authorization header: 401 with a challenge
// (RFC 6749 section 5.2).
func badHeader(step, name string, spoil func(*flow)) row {
	return row{
		step: step, name: name, status: http.StatusUnauthorized, code: "invalid_client",
		description: "client authentication failed",
		header:      []string{`Www-Authenticate: Basic realm="/api", charset="UTF-8"`}, spoil: spoil,
	}
}

// authorization sends a header instead of credentials in the form.
func authorization(name, value string) row {
	return badHeader("C5", name, func(x *flow) {
		x.set("client_id", "", "client_secret", "")
		x.req.set("Authorization", value)
	})
}

const twoMethods = "more than one client authentication method"

var clientRows = []row{
	invalid("C1", "nothing at all", "client_id missing", func(x *flow) { x.set("client_id", "", "client_secret", "") }),
	invalid("C1", "secret alone", "client_id missing", func(x *flow) { x.set("client_id", "") }),
	invalid("C1", "empty client_id", "client_id missing", func(x *flow) { x.req.form["client_id"] = []string{""} }),

	badForm("C2", "client_id alone", func(x *flow) { x.set("client_secret", "") }),
	badForm("C2", "empty secret", func(x *flow) { x.req.form["client_secret"] = []string{""} }),

	badForm("C3", "unknown", func(x *flow) { x.set("client_id", "nobody") }),
	badForm("C3", "unknown without secret", func(x *flow) { x.set("client_id", "nobody", "client_secret", "") }),
	badForm("C3", "other spelling", func(x *flow) { x.set("client_id", strings.ToUpper(x.client.ID)+"x") }),
	badForm("C3", "disabled", func(x *flow) {
		off := x.change(x.client, func(c *store.Client) { c.State = store.ClientDisabled })
		x.undo = func() { x.change(off, func(c *store.Client) { c.State = store.ClientEnabled }) }
	}),
	badForm("C3", "deleted", func(x *flow) {
		gone := x.deployment.client(client.Registration{})
		x.change(gone, func(c *store.Client) { c.State = store.ClientDeleted })
		x.set("client_id", gone.ID, "client_secret", gone.secret)
	}),
	badForm("C3", "other realm", func(x *flow) {
		other := x.deployment.client(client.Registration{})
		other = x.change(other, func(c *store.Client) { c.ID, c.Realm, c.Version = c.ID+"-elsewhere", "/other", 0 })
		x.set("client_id", other.ID, "client_secret", other.secret)
	}),
	badForm("C4", "wrong secret", func(x *flow) { x.set("client_secret", "wrong") }),
	badForm("C4", "another client's secret", func(x *flow) { x.set("client_secret", x.a.secret) }),
	badForm("C4", "secret and a space", func(x *flow) { x.set("client_secret", x.client.secret+" ") }),
	badForm("C4", "secret cut short", func(x *flow) { x.set("client_secret", x.client.secret[:42]) }),
	badForm("C4", "expired secret", func(x *flow) {
		x.set("client_secret", x.addSecret(x.client, time.Minute))
		x.step(time.Minute)
		x.undo = func() { x.step(-time.Minute) }
	}),
	badForm("C4", "public client with a secret", func(x *flow) {
		public := x.deployment.client(client.Registration{Settings: store.Settings{Auth: store.AuthNone}})
		x.set("client_id", public.ID)
	}),

	badHeader("C5", "wrong secret", func(x *flow) { x.req.basic(x.client.ID, "wrong") }),
	badHeader("C5", "unknown client", func(x *flow) { x.req.basic("nobody", x.client.secret) }),
	badHeader("C5", "empty secret", func(x *flow) { x.req.basic(x.client.ID, "") }),
	badHeader("C5", "bad escape", func(x *flow) {
		x.req.basic("", "")
		x.req.set("Authorization", basicHeader(x.client.ID, x.client.secret+"%zz"))
	}),
	badHeader("C5", "not base64", func(x *flow) {
		x.req.basic("", "")
		x.req.set("Authorization", "Basic "+x.client.ID+":"+x.client.secret)
	}),
	badHeader("C5", "two spaces", func(x *flow) {
		x.req.basic("", "")
		x.req.set("Authorization", strings.Replace(basicHeader(x.client.ID, x.client.secret), " ", "  ", 1))
	}),
	authorization("no colon", "Basic YWJj"),
	authorization("padding missing", "Basic YTpiYw"),
	authorization("scheme alone", "Basic"),
	authorization("NUL", "Basic YQA6Yg=="),

	badHeader("C6", "Bearer", func(x *flow) { x.req.set("Authorization", "Bearer x") }),
	badHeader("C6", "Digest", func(x *flow) { x.req.set("Authorization", `Digest username="x"`) }),
	badHeader("C6", "Negotiate without form credentials", func(x *flow) {
		x.set("client_id", "", "client_secret", "")
		x.req.set("Authorization", "Negotiate YWJj")
	}),
	badHeader("C6", "two good headers", func(x *flow) {
		x.req.basic(x.client.ID, x.client.secret)
		x.req.header = append(x.req.header, "Authorization: "+basicHeader(x.client.ID, x.client.secret))
	}),

	invalid("C7", "Basic and secret", twoMethods, func(x *flow) {
		x.req.basic(x.client.ID, x.client.secret)
		x.set("client_secret", x.client.secret)
	}),
	invalid("C7", "Basic and assertion", twoMethods, func(x *flow) {
		x.req.basic(x.client.ID, x.client.secret)
		x.set("client_assertion", "e30.e30.e30", "client_assertion_type", jwtBearer)
	}),
	invalid("C7", "secret and assertion", twoMethods, func(x *flow) {
		x.set("client_assertion", "e30.e30.e30", "client_assertion_type", jwtBearer)
	}),
	invalid("C8", "another client_id", "client_id mismatch", func(x *flow) {
		x.req.basic(x.client.ID, x.client.secret)
		x.set("client_id", x.b.ID)
	}),

	badForm("C9", "form, registered for Basic", func(x *flow) { pin(x, store.AuthBasic) }),
	badHeader("C9", "Basic, registered for the form", func(x *flow) {
		pin(x, store.AuthPost)
		x.req.basic(x.client.ID, x.client.secret)
	}),

	invalid("C11", "assertion without type", "client assertion malformed", func(x *flow) {
		x.set("client_secret", "", "client_assertion", "e30.e30.e30")
	}),
	invalid("C11", "type without assertion", "client assertion malformed", func(x *flow) {
		x.set("client_secret", "", "client_assertion_type", jwtBearer)
	}),
	invalid("C11", "type beside a secret", "client assertion malformed", func(x *flow) {
		x.set("client_assertion_type", jwtBearer)
	}),
	invalid("C11", "type beside Basic", "client assertion malformed", func(x *flow) {
		x.req.basic(x.client.ID, x.client.secret)
		x.set("client_assertion_type", jwtBearer)
	}),
	invalid("C11", "another type", "client assertion malformed", func(x *flow) {
		x.set("client_secret", "", "client_assertion", "e30.e30.e30",
			"client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:saml2-bearer")
	}),

	{
		step: "U1", name: "grant type not registered", status: http.StatusBadRequest, code: "unauthorized_client",
		description: "grant type not allowed for this client",
		spoil: func(x *flow) {
			all := x.client.GrantTypes
			less := x.change(x.client, func(c *store.Client) {
				c.GrantTypes = slices.DeleteFunc(slices.Clone(all), func(g string) bool { return g == x.kind })
			})
			x.undo = func() { x.change(less, func(c *store.Client) { c.GrantTypes = all }) }
		},
	},
}

const jwtBearer = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// pin registers the flow's client for one method until undo.
func pin(x *flow, rule store.AuthRule) {
	pinned := x.change(x.client, func(c *store.Client) { c.Auth = rule })
	x.undo = func() { x.change(pinned, func(c *store.Client) { c.Auth = store.AuthEither }) }
}

// addSecret gives a client another secret.
func (d *deployment) addSecret(c oauthClient, lifetime time.Duration) string {
	d.t.Helper()
	now := grant.At(d.now())
	_, added, text, err := client.AddSecret(c.Client, d.ring(), now, now.Add(lifetime))
	if err != nil {
		d.t.Fatal(err)
	}
	d.change(c, func(c *store.Client) { c.Secrets = append(c.Secrets, added) })
	return string(text)
}
