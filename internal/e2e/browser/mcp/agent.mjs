// An agent: the client of the Model Context Protocol's SDK. It is told the address of
// an MCP server, its redirect URI, and the address of its document, or "" and a
// token_endpoint_auth_method to register.
// It prints the address that the user has to open, calls a tool once as it is signed in
// and once with a token that has ended, and prints what it got.
import { createServer } from 'node:http'
import { once } from 'node:events'
import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

const [address, redirectUrl, clientMetadataUrl, method = 'none'] = process.argv.slice(2)
const kept = {}
const provider = {
  redirectUrl,
  clientMetadataUrl: clientMetadataUrl || undefined,
  clientMetadata: { client_name: 'SDK Agent', redirect_uris: [redirectUrl], grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'], token_endpoint_auth_method: method },
  state: () => 'the state',
  clientInformation: () => kept.client,
  saveClientInformation: (client) => { kept.client = client },
  tokens: () => kept.tokens,
  saveTokens: (tokens) => { kept.tokens = tokens },
  saveCodeVerifier: (verifier) => { kept.verifier = verifier },
  codeVerifier: () => kept.verifier,
  redirectToAuthorization: (url) => console.log(`open ${url}`),
}

async function call() {
  const client = new Client({ name: 'agent', version: '1.0.0' })
  await client.connect(new StreamableHTTPClientTransport(new URL(address), { authProvider: provider }))
  const { content } = await client.callTool({ name: 'list_tickets' })
  await client.close()
  return content[0].text
}

const callback = createServer()
callback.listen(new URL(redirectUrl).port, '127.0.0.1')
await once(callback, 'listening')
const transport = new StreamableHTTPClientTransport(new URL(address), { authProvider: provider })
try {
  await new Client({ name: 'agent', version: '1.0.0' }).connect(transport)
  throw new Error('the server asks for no token')
} catch (e) {
  if (!(e instanceof UnauthorizedError)) {
    throw e
  }
}
for await (const [request, response] of (async function* () { for (;;) yield await once(callback, 'request') })()) {
  const url = new URL(request.url, redirectUrl)
  response.setHeader('Content-Type', 'text/html').end('<p>You can close this page.</p>')
  if (url.pathname === new URL(redirectUrl).pathname) { // and not its icon
    await transport.finishAuth(url.searchParams.get('code'))
    break
  }
}
const first = { ...kept.tokens }
const text = await call()
kept.tokens = { ...first, access_token: first.access_token.slice(0, -4) + 'AAAA' } // as if it had ended
const again = await call()
console.log('done ' + JSON.stringify({
  client_id: kept.client.client_id, text, again, scope: kept.tokens.scope,
  refreshed: kept.tokens.access_token !== first.access_token && kept.tokens.refresh_token !== first.refresh_token,
}))
process.exit()
