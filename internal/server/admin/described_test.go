package admin_test

import (
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// An operation has the parts of a description that tests compare with answers.
type operation struct {
	Responses map[string]any
}

// describedPaths are the paths of openapi.json, with their members.
var describedPaths = sync.OnceValues(func() (map[string]map[string]json.RawMessage, error) {
	text, err := os.ReadFile("../resource/openapi.json")
	var api struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err == nil {
		err = json.Unmarshal(text, &api)
	}
	return api.Paths, err
})

// checkDescribed requires that openapi.json has the status among the answers of an operation,
// if it has the operation.
func checkDescribed(t *testing.T, method, path string, status int) {
	t.Helper()
	paths, err := describedPaths()
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(path, "/")
	for template, members := range paths {
		text, ok := members[strings.ToLower(method)]
		if !ok || !slices.EqualFunc(strings.Split(template, "/"), parts, func(want, got string) bool { return want == got || strings.HasPrefix(want, "{") }) {
			continue
		}
		var of operation
		if err := json.Unmarshal(text, &of); err != nil {
			t.Fatal(err)
		}
		if of.Responses[strconv.Itoa(status)] == nil {
			t.Errorf("%s %s answers %d, which its description lacks", method, template, status)
		}
	}
}
