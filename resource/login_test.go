package resource_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/mintage/mintage/resource"
)

func TestAnAPIDemandsALogin(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		v := verifier(t, s.config())
		ok := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p, _ := resource.FromContext(r.Context())
			fmt.Fprint(w, p.ACR, " ", p.AuthTime.Unix())
		})
		say := func(ago time.Duration, acr string) map[string]any {
			return map[string]any{"auth_time": time.Now().Add(-ago).Unix(), "acr": acr}
		}
		strong := resource.Authentication{MaxAge: 5 * time.Minute, ACR: []string{"gold", "platinum"}}
		for name, c := range map[string]struct {
			said   map[string]any
			demand resource.Authentication
			passes bool
		}{
			"fresh and strong": {say(5*time.Minute, "gold"), strong, true},
			"the other class":  {say(0, "platinum"), strong, true},
			"old":              {say(5*time.Minute+time.Second, "gold"), strong, false},
			"weak":             {say(0, "silver"), strong, false},
			"nothing said":     {map[string]any{}, strong, false},
			"only the age":     {say(time.Minute, ""), resource.Authentication{MaxAge: 5 * time.Minute}, true},
			"no age":           {map[string]any{}, resource.Authentication{MaxAge: 5 * time.Minute}, false},
			"only the class":   {say(time.Hour, "silver"), resource.Authentication{ACR: []string{"gold", "platinum"}}, false},
			"no demand":        {map[string]any{}, resource.Authentication{}, true},
		} {
			for form, token := range map[string]string{"JWT": s.token(c.said), "opaque": s.issue("t", c.said)} {
				resp := askHandler(v.RequireLogin(c.demand, "read")(ok), "Authorization: Bearer "+token)
				want := ""
				if !c.passes {
					want = `Bearer realm="` + audience + `", error="insufficient_user_authentication"`
					if len(c.demand.ACR) > 0 {
						want += `, acr_values="gold platinum"`
					}
					if c.demand.MaxAge > 0 {
						want += `, max_age="300"`
					}
				}
				if got := resp.Header.Get("WWW-Authenticate"); (resp.StatusCode == 200) != c.passes || !c.passes && resp.StatusCode != 401 || got != want {
					t.Errorf("%s, %s: %d %s", name, form, resp.StatusCode, got)
				}
			}
		}
		if err := strong.Check(resource.Principal{}, time.Now()); !errors.Is(err, resource.ErrInsufficientLogin) {
			t.Error(err)
		}
	})
}

func TestALoginThatNoChallengeCanName(t *testing.T) {
	v := verifier(t, newAuthServer().config())
	for _, a := range []resource.Authentication{{ACR: []string{""}}, {ACR: []string{"a b"}}, {ACR: []string{`"`}}, {MaxAge: -time.Second}, {MaxAge: time.Millisecond}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v is accepted", a)
				}
			}()
			v.RequireLogin(a)
		}()
	}
}
