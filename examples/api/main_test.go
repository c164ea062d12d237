package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/resource"
)

// holding lets requests through whose caller, alice, has the scopes.
func holding(have ...string) func(...string) func(http.Handler) http.Handler {
	return func(scopes ...string) func(http.Handler) http.Handler {
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for _, s := range scopes {
					if !slices.Contains(have, s) {
						w.WriteHeader(http.StatusForbidden)
						return
					}
				}
				next.ServeHTTP(w, r.WithContext(resource.NewContext(r.Context(), resource.Principal{Subject: "alice"})))
			})
		}
	}
}

func ask(h http.Handler, method, body string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, "/invoices", strings.NewReader(body)))
	return w.Code, w.Body.String()
}

// What protect-an-api.md shows is what this program does.
func TestTheTutorialShowsThisProgram(t *testing.T) {
	page, err := os.ReadFile("../../docs/tutorials/protect-an-api.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, block, shown := strings.Cut(string(page), "```go\n")
	block, _, closed := strings.Cut(block, "```")
	if !shown || !closed || strings.Contains(block, "```go") {
		t.Fatal("the tutorial has no block of Go")
	}
	for line := range strings.Lines(block) {
		if !strings.Contains(string(program), "\t"+line) {
			t.Errorf("main.go does not have %s", line)
		}
	}
}

func TestReadingTakesReadAndAddingTakesWrite(t *testing.T) {
	api := newAPI(holding("read", "write"))
	if status, _ := ask(api, "POST", "Ten pencils\n"); status != http.StatusCreated {
		t.Errorf("adding: %d", status)
	}
	if status, body := ask(api, "GET", ""); status != http.StatusOK || body != "1 invoices, shown to alice\nTen pencils, by alice\n" {
		t.Errorf("reading: %d %q", status, body)
	}
	if status, _ := ask(api, "POST", strings.Repeat("x", 1001)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a long invoice: %d", status)
	}
	if status, _ := ask(newAPI(holding("read")), "POST", "x"); status != http.StatusForbidden {
		t.Errorf("adding with read alone: %d", status)
	}
	if status, _ := ask(newAPI(holding()), "GET", ""); status != http.StatusForbidden {
		t.Errorf("reading with no scope: %d", status)
	}
}
