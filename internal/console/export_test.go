package console

import (
	"time"

	"github.com/mintage/mintage/internal/adminapi"
)

// Routes returns the method and path of each page, and whether it is public (needs no
// session).
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

// ExportPages sets how many pages an export reads.
func (c *Console) ExportPages(n int) { c.export = n * adminapi.MaxPage }

// Hurry sets how often a growing page polls.
func (c *Console) Hurry(interval time.Duration) { c.interval = interval }

// Shown returns foreign text in the form in which pages show it.
func Shown(text string) string { return shown(text) }
