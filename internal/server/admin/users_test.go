package admin_test

import (
	"fmt"
	"strings"
	"testing"
)

// A list of users is stored as a whole, and can be sent again.
func TestUsersAreImportedAsAWhole(t *testing.T) {
	a := newAdminAPI(t)
	count := func(want int) {
		t.Helper()
		if all, _ := a.call(t, 200, "GET", "/users", ""); len(all.list("users")) != want {
			t.Errorf("%d users, want %d", len(all.list("users")), want)
		}
	}
	two := `"users":[{"username":"carol","claims":{"email":"carol@example.com"}},{"username":"dave"}]`
	for _, c := range []struct {
		body              string
		created, existing float64
		users             int
	}{
		{`{` + two + `,"dry_run":true}`, 2, 0, 0},
		{`{` + two + `}`, 2, 0, 2},
		{`{"users":[{"username":"Carol"},{"username":"erin"}]}`, 1, 1, 3},
	} {
		if done, _ := a.call(t, 200, "POST", "/imports", c.body); done["created"] != c.created || done["existing"] != c.existing {
			t.Errorf("%s: %v", c.body, done)
		}
		count(c.users)
	}
	for field, body := range map[string]string{
		"users.1.subject":       `{"users":[{"username":"frank"},{"username":"gina","subject":"billing"}]}`, // the id of a client
		"users.2.password_hash": `{"users":[{"username":"frank"},{"username":"gina"},{"username":"hugo","password_hash":"x"}]}`,
		"users":                 `{"users":[{"username":"frank"}` + strings.Repeat(`,{"username":"frank"}`, 100) + `]}`,
	} {
		if p, _ := a.call(t, 422, "POST", "/imports", body); p["field"] != field {
			t.Errorf("%s: %v", field, p)
		}
	}
	a.call(t, 400, "POST", "/imports", `{"users":[{"username":"frank","password":"a password"}]}`)
	count(3)
	most := make([]string, 100)
	for i := range most {
		most[i] = fmt.Sprintf(`{"username":"user-%d"}`, i)
	}
	if done, _ := a.call(t, 200, "POST", "/imports", `{"users":[`+strings.Join(most, ",")+`]}`); done["created"] != 100.0 {
		t.Errorf("the most: %v", done)
	}
	long := `{"users":[{"username":"frank","name":"` + strings.Repeat(" ", 100<<10) + `"}]}`
	if p, _ := a.call(t, 422, "POST", "/imports", long); p["field"] != "users.0.name" { // the list was read completely
		t.Errorf("%v", p)
	}
}
