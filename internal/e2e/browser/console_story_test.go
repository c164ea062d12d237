//go:build e2e

package browser

import (
	"strings"
	"testing"
)

// The days of an admin: a first client, another secret for it and the end of the first,
// a change, a mistake that is undone, what the audit log says of it, and an explanation.
// The browser runs no script.
func TestConsoleClients(t *testing.T) {
	t.Parallel()
	w := openConsole(t)
	w.operator(t, "alice", "admin")
	b := newWindow(t).knowsAxe()
	w.enters(t, b, "alice")
	b.open(w.url + "/clients")
	b.reads("There is no client yet.")
	b.examine(t, "console-clients-none")
	b.click("#new")
	b.reads("What is it?")
	b.examine(t, "console-client-kinds")
	b.click("#kind-web")
	b.reads("It keeps a secret, and its users sign in.")
	b.fill("#name", "Shop")
	b.fill("#redirect_uris", "http://shop.example/callback")
	b.click("#create")
	b.reads("Nothing was saved:")
	b.answered(422)
	b.examine(t, "console-client-refused")
	b.fill("#redirect_uris", "https://shop.example/callback")
	b.click("#create")
	b.reads("The client is created")
	first, id := b.text("#secret"), b.text("#client-id")
	b.examine(t, "console-client-secret")
	b.click("#done")
	b.reads("A disabled client is refused")
	b.examine(t, "console-client")
	if strings.Contains(b.text("main"), first) {
		t.Error("the page of a client has its secret")
	}
	b.click("#add-secret")
	b.reads("The secrets of before stay valid.")
	b.click("#done")
	b.click(`tbody tr:first-child a[href$="/revoke"]`)
	b.reads("Revoke this secret?")
	b.examine(t, "console-revoke")
	b.click("#revoke")
	b.reads("The secret is revoked.")
	b.click("#edit")
	b.reads("Settings of")
	b.examine(t, "console-client-edit")
	b.fill("#name", "The shop")
	b.click("#save")
	b.reads("The settings are saved.")
	b.click("#disable")
	b.reads("The client is disabled")
	b.examine(t, "console-client-disabled")
	b.click("#undo")
	b.reads("The client is enabled.")
	b.open(w.url + "/clients?match=shop")
	b.reads("The shop")
	b.examine(t, "console-clients")
	b.open(w.url + "/clients/" + id)
	b.click("#delete")
	b.reads("To go on, type:")
	b.examine(t, "console-delete")
	b.open(w.url + "/audit?client=" + id)
	b.reads("client_created")
	b.examine(t, "console-audit")
	b.open(w.url + "/grants")
	b.reads("Name a subject")
	b.examine(t, "console-grants")
	b.open(w.url + "/explain")
	b.reads("Paste a token")
	b.examine(t, "console-explain")
	b.fill("#text", "mintage_rt_"+strings.Repeat("x", 60))
	b.click("#explain")
	b.reads("What to do")
	b.examine(t, "console-explained")
	b.fill("#search", id)
	b.enter()
	b.reads("A disabled client is refused")
	if b.holds("document.scripts.length > 0") {
		t.Error("a page of the console has a script")
	}
}
