package console

import (
	"time"

	"github.com/mintage/mintage/internal/adminapi"
)

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

// ExportPages sets how many pages an export reads.
func (c *Console) ExportPages(n int) { c.export = n * adminapi.MaxPage }

// Hurry sets how often a page that grows looks.
func (c *Console) Hurry(interval time.Duration) { c.interval = interval }

// Shown returns a text of others as pages show it.
func Shown(text string) string { return shown(text) }
