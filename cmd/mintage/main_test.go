package main

import (
	"strings"
	"testing"
)

func TestTheVersionIsThatOfTheReleaseOrNamesTheBuild(t *testing.T) {
	if v := buildVersion(); !strings.Contains(v, " go1.") {
		t.Errorf("a build that is no release calls itself %q", v)
	}
	version = "v1.2.3"
	defer func() { version = "" }()
	if v := buildVersion(); v != "v1.2.3" {
		t.Errorf("a release calls itself %q", v)
	}
}
