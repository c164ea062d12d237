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

` + "`make docs`" + ` generates this page from the program. How to use the settings is in [configure](../how-to/configure.md).

Give a setting in the YAML file that ` + "`--config`" + ` names, where dots nest, in the environment, or as a flag of
` + "`mintage serve`" + `. A flag overrides the environment, and the environment overrides the file. Unknown settings are errors, and
so are settings that are given twice. Durations are written like 90s, 5m, 12h or 31d, and sizes like 512MiB or 10GiB. Lists are YAML
sequences, or separated by commas. YAML's aliases, merge keys and tags are not supported. ` + "`mintage config schema`" + ` prints the
JSON Schema of the file.

**Reload** says whether ` + "`SIGHUP`" + ` applies a new value. A setting that needs a restart keeps its value until then, and the log names it.

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
## Realms

` + "`realms`" + ` is a section of the file: ` + config.RealmsDoc + `. [Several realms](../how-to/several-realms.md)
says what they are for.

    realms:
      staff:
        base_path: /staff
        login: {mode: off}

A realm may be called by up to 40 lower-case letters, digits and dashes, but neither ` + "`api`" + `, which is the realm outside of
this section, nor ` + reserved() + `. Each needs a ` + "`public_url`" + ` or a ` + "`base_path`" + ` of its own. It takes over
neither ` + "`issuer`" + ` nor, if it has its own ` + "`login.upstream.issuer`" + `, any other setting of that section. A variable names the realm in
capital letters, with ` + "`_`" + ` for dashes: ` + "`MINTAGE_REALMS_STAFF_BASE_PATH`" + ` changes a realm that is in the file. There are no flags.
To add or remove a realm takes a restart. These settings may differ:

`)
	for _, k := range config.Keys() {
		if k.OfRealm {
			fmt.Fprintf(&b, "* `%s`\n", k.Name)
		}
	}
	b.WriteString(`
## Secrets

No secret needs to be in the file, and none may be in a flag, which everybody on the machine can read. A setting whose name ends in
` + "`_file`" + ` names a file with the secret. For a setting that may contain a secret itself, a variable can name a file with the value.
Surrounding space is ignored; setting both variables is an error. If neither file, environment nor flag gives a setting, the server uses
the systemd credential of this name, if the service has it ([systemd.exec](https://www.freedesktop.org/software/systemd/man/latest/systemd.exec.html#Credentials),
` + "`LoadCredential=`" + `).

The server refuses to start if everybody can read a file with secrets. ` + "`SIGHUP`" + ` reads the files again whose setting can be reloaded.

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

// reserved lists the names that no realm may have.
func reserved() string {
	last := len(config.ReservedRealms) - 1
	return "`" + strings.Join(config.ReservedRealms[:last], "`, `") + "` or `" + config.ReservedRealms[last] + "`"
}
