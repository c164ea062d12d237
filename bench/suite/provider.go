package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// providerScript is a server with node-oidc-provider.
//
//go:embed provider.mjs
var providerScript string

// provider starts node-oidc-provider.
func (p *peering) provider(ctx context.Context, base *contender) error {
	var description struct{ Version string }
	text, err := os.ReadFile(filepath.Join(p.peers, "node_modules/oidc-provider/package.json"))
	if err != nil {
		return fmt.Errorf("%w: run scripts/peers", err)
	}
	if err := json.Unmarshal(text, &description); err != nil {
		return err
	}
	cert, key := p.certificate(base)
	cmd := exec.CommandContext(ctx, "node", "--input-type=module", "--eval", providerScript, "--", cert, key,
		base.target.ClientID, base.target.ClientSecret, base.target.RedirectURI, scope, strconv.Itoa(p.grants))
	cmd.Dir, cmd.Env = p.peers, append(os.Environ(), "NODE_ENV=production")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	started, err := start(cmd, filepath.Join(p.dir, "provider.log"))
	if err != nil {
		return err
	}
	c := p.add(&contender{store: "in memory", base: base, child: started})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		return c.failure("ended before it was ready")
	}
	var ready struct {
		Node   string
		Port   int
		Tokens []string
	}
	if err := json.Unmarshal(line, &ready); err != nil {
		return fmt.Errorf("node-oidc-provider: %w: %s", err, line)
	}
	c.name, c.tokens = fmt.Sprintf("node-oidc-provider %s, Node %s", description.Version, ready.Node), ready.Tokens
	c.target = base.targetAt(fmt.Sprintf("https://127.0.0.1:%d/token", ready.Port))
	c.introspection = c.target.Endpoint + "/introspection"
	return nil
}
