package config

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestTheStoreIsSQLiteOrAPostgreSQLURL(t *testing.T) {
	for _, good := range []string{
		"sqlite", "postgres://mintage@db.example:5432/mintage", "postgresql://mintage:pass%2Fword@db/mintage",
		"postgres://mintage@/mintage?host=/run/postgresql",
		"postgres://mintage@one:5432,two:5432/mintage?sslmode=verify-full&target_session_attrs=read-write",
	} {
		if err := (&Config{Store: good}).CheckStore(); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "SQLite", "sqlite:data", "mysql://u@h/d", "postgres://", "postgres:///d", "host=h user=u", "postgres://u:geheim%@h/d", "://geheim"} {
		err := (&Config{Store: bad}).CheckStore()
		if err == nil || !strings.HasPrefix(err.Error(), "store: ") || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%q: %v, want an error about the store that does not quote it", bad, err)
		}
	}
	for store, refused := range map[string]bool{
		"sqlite": true, "postgres://u@h/d": false, "postgres://u:geheim@h/d": true, "postgres://u@h/d?password=geheim": true,
	} {
		if err := (&Config{Store: store, StorePasswordFile: "f"}).CheckStore(); (err != nil) != refused {
			t.Errorf("%s with a password file: %v", store, err)
		}
	}
}

func TestAPasswordInAFlagIsRefused(t *testing.T) {
	for _, store := range []string{"postgres://u:geheim@h/d", "postgres://u@h/d?sslmode=disable&password=geheim", "postgres://u@h/d?sslpassword=geheim"} {
		_, _, err := Load("", nil, map[string]string{"store": store})
		if err == nil || !strings.Contains(err.Error(), "store_password_file") || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%v, want what to do instead, without the password", err)
		}
		if c, _, err := Load("", []string{"MINTAGE_STORE=" + store}, nil); err != nil || c.Store != store {
			t.Errorf("in the environment: %v", err)
		}
	}
	if _, _, err := Load("", nil, map[string]string{"store": "postgres://u@h/d"}); err != nil {
		t.Error(err)
	}
}

func TestTheStoresNameHoldsNoSecret(t *testing.T) {
	for store, want := range map[string]string{
		"sqlite": "sqlite", "postgres://u:geheim@one:1,two:2/d?password=geheim&sslkey=geheim": "postgres://one:1,two:2/d", "geheim": "sqlite",
		"postgres://u:geheim@/d?host=/run/postgresql": "postgres:///d?host=%2Frun%2Fpostgresql",
	} {
		if got := (Config{Store: store}).StoreName(); got != want {
			t.Errorf("%s: %s, want %s", store, got, want)
		}
	}
}

func TestSkewIsForSeveralNodes(t *testing.T) {
	for _, c := range []struct {
		store string
		given time.Duration
		want  time.Duration
	}{
		{StoreSQLite, 0, 0}, {StoreSQLite, time.Second, time.Second},
		{"postgres://u@h/d", 0, 2 * time.Second}, {"postgres://u@h/d", time.Second, time.Second},
	} {
		if got := (Config{Store: c.store, MaxSkew: Duration(c.given)}).Skew(); got != c.want {
			t.Errorf("%s with %s: %s, want %s", c.store, c.given, got, c.want)
		}
	}
}

func TestASkewThatACommitTakesIsRefused(t *testing.T) {
	for store, refused := range map[string]bool{StoreSQLite: false, "postgres://u@h/d": true} {
		c := Default()
		c.Store, c.MaxSkew = store, Duration(100*time.Millisecond)
		if err := c.Check(); strings.Contains(fmt.Sprint(err), "max_skew") != refused {
			t.Errorf("%s: %v, want max_skew refused: %t", store, err, refused)
		}
	}
}
