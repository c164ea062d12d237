package deployment_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
)

// The error of a database with several hosts has one line for each host.
func TestTheLogWritesAnErrorAsOneLine(t *testing.T) {
	several := errors.Join(errors.New("connect:\n\tdb1: refused"), errors.New("db2: refused"))
	for _, format := range []string{"text", "json"} {
		var b bytes.Buffer
		log, _ := deployment.NewLogger(&b, config.Log{Level: "info", Format: format})
		log.Error("cannot poll", "error", several)
		log.Error("cannot poll", "error", several.Error())
		log.Error("cannot poll", "cause", several)
		if text := b.String(); strings.Count(text, "connect: db1: refused; db2: refused") != 3 || strings.Contains(text, `\n`) || strings.Contains(text, `\t`) {
			t.Errorf("%s: %s", format, text)
		}
	}
}
