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

Made from the program by ` + "`make docs`" + `. How to use it is in [how-to/configure.md](../how-to/configure.md).

Each setting can be given in the YAML file named by ` + "`--config`" + `, where dots nest, in the environment, and as a flag of
` + "`mintage serve`" + `. A flag goes over the environment and that over the file. Unknown settings are errors, and so are names that are
given twice. Durations are written like 90s, 5m, 12h or 31d, and
sizes like 512MiB or 10GiB; lists are YAML sequences, or separated by commas. YAML's aliases, merge keys and
tags are not understood. ` + "`mintage config schema`" + ` prints the JSON Schema of the file.

**Reload** says whether ` + "`SIGHUP`" + ` takes a new value over. What takes a restart to change keeps its value until then, and the log names it.

| setting | environment | flag | default | reload | meaning |
|---|---|---|---|---|---|
`)
	for _, k := range config.Keys() {
		def := k.Default
		if def != "" {
			def = "`" + def + "`"
		}
		reload := "restart"
		if k.Reloads {
			reload = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | `--%s` | %s | %s | %s |\n", k.Name, k.Env, k.Flag, def, reload, k.Doc)
	}
	b.WriteString(`
## Secrets

No secret needs to be in the file, and none may be in a flag, which everybody on the machine can read. A setting whose name ends in
` + "`_file`" + ` names a file with the secret. A setting that may hold one itself can also be the content of a file that a variable names.
Space around it does not count; setting both variables is an error. Where neither file, environment nor flag gives a setting, the systemd
credential of this name is used, if the service has it ([systemd.exec](https://www.freedesktop.org/software/systemd/man/latest/systemd.exec.html#Credentials),
` + "`LoadCredential=`" + `).

Files with secrets must not be open to everybody: the server does not start then. ` + "`SIGHUP`" + ` reads those again whose setting can be reloaded.

| setting | variable with a file | systemd credential |
|---|---|---|
`)
	for _, k := range config.Keys() {
		if k.Credential == "" {
			continue
		}
		variable := k.EnvFile
		if variable == "" {
			variable = k.Env
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | `%s` |\n", k.Name, variable, k.Credential)
	}
	return b.String()
}
