package console

import (
	"time"

	"github.com/mintage/mintage/internal/adminapi"
)

// ExportPages sets how many pages an export reads, until reset is called.
func ExportPages(n int) (reset func()) {
	before := maxExport
	maxExport = n * adminapi.MaxPage
	return func() { maxExport = before }
}

// Routes returns method and path of each page, and whether it needs nobody to be signed in.
func (c *Console) Routes() (list []Route) {
	for _, rt := range c.routes() {
		list = append(list, Route{rt.method, rt.path, rt.public})
	}
	return list
}

// A Route is a page, for tests.
type Route struct {
	Method, Path string
	Public       bool
}

// Hurry sets how often a page that grows looks.
func (c *Console) Hurry(interval time.Duration) { c.interval = interval }

// Shown returns a text of others as pages show it.
func Shown(text string) string { return shown(text) }
