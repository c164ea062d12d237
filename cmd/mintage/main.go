// Command mintage is an OAuth 2.0 token service and the commands to run it.
package main

import (
	"runtime/debug"

	"github.com/mintage/mintage/internal/cli"
)

// version is set by the release build; other builds name their commit.
var version = ""

func main() { cli.Main(buildVersion()) }

func buildVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v, revision, dirty := info.Main.Version, "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			revision = " " + s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = " modified"
		}
	}
	return v + revision + dirty + " " + info.GoVersion
}
