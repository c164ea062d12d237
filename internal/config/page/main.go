// Command page writes docs/reference/configuration.md from the settings.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/mintage/mintage/internal/config"
)

const file = "docs/reference/configuration.md"

func main() {
	if err := os.WriteFile(file, []byte(page()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func page() string {
	var b strings.Builder
	b.WriteString(`# Configuration

Made from the program by ` + "`make docs`" + `. Each setting can be given in the YAML file named by ` + "`--config`" + `, where dots nest, in the environment, and
as a flag of ` + "`mintage serve`" + `. A flag goes over the environment and that over the file. Unknown settings are errors. Durations are written like
90s, 5m, 12h or 31d; lists are YAML sequences, or separated by commas.

| setting | environment | flag | default | meaning |
|---|---|---|---|---|
`)
	for _, k := range config.Keys() {
		def := k.Default
		if def != "" {
			def = "`" + def + "`"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | `--%s` | %s | %s |\n", k.Name, k.Env, k.Flag, def, k.Doc)
	}
	return b.String()
}
