// An agent whose tokens are bound to a key that cannot be exported (RFC 9449). It is told
// the address of an MCP server, its redirect URI, and the address of its document, or
// nothing to register itself. It prints the address that the user has to open, unless
// the browser would come back at once, calls the server, refreshes, calls it again, and
// prints what it got.
import { createServer } from 'node:http'
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { SignJWT, calculateJwkThumbprint, exportJWK, generateKeyPair } from 'jose'

const [address, redirectUrl = 'http://localhost:3333/callback', documentUrl] = process.argv.slice(2)
const { publicKey, privateKey } = await generateKeyPair('ES256', { extractable: false })
const jwk = await exportJWK(publicKey)
const digest = (text) => createHash('sha256').update(text).digest('base64url')
const nonces = {} // by origin: the server of tokens and that of tools have their own

async function proof(method, url, token) {
  const { origin, pathname } = new URL(url)
  const claims = { jti: randomUUID(), htm: method, htu: origin + pathname, nonce: nonces[origin], ath: token && digest(token) }
  return new SignJWT(claims).setProtectedHeader({ typ: 'dpop+jwt', alg: 'ES256', jwk }).setIssuedAt().sign(privateKey)
}

// A request with a proof. One that lacks a nonce is sent once more with it (sections 8
// and 9).
async function prove(url, { headers, body }, token) {
  let response
  for (let turn = 0; turn < 2; turn++) {
    response = await fetch(url, {
      method: 'POST', body,
      headers: { ...headers, DPoP: await proof('POST', url, token), ...(token && { authorization: `DPoP ${token}` }) },
    })
    const nonce = response.headers.get('dpop-nonce')
    if (nonce) nonces[new URL(url).origin] = nonce
    const refused = response.status === 400 ? (await response.clone().json()).error : response.headers.get('www-authenticate') ?? ''
    if (!nonce || response.ok || !refused.includes('use_dpop_nonce')) break
  }
  return response
}

async function documentOf(...addresses) {
  for (const url of addresses) {
    const response = await fetch(url)
    if (response.ok) return response.json()
  }
  throw new Error(`no document at ${addresses}`)
}

let session
const rpc = (method, params, id) => ({
  headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2025-11-25', ...(session && { 'mcp-session-id': session }) },
  body: JSON.stringify({ jsonrpc: '2.0', method, params, id }),
})

async function call(method, params, token) {
  const id = method.startsWith('notifications/') ? undefined : 1
  const response = await prove(address, rpc(method, params, id), token)
  if (!response.ok) throw new Error(`${method}: ${response.status} ${response.headers.get('www-authenticate')}`)
  session = response.headers.get('mcp-session-id') ?? session
  const text = await response.text()
  if (id === undefined) return undefined
  return JSON.parse(/^data: (.*)$/m.exec(text)?.[1] ?? text).result
}

async function tools(token) {
  session = undefined
  await call('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'proving agent', version: '1.0.0' } }, token)
  await call('notifications/initialized', {}, token)
  return call('tools/list', {}, token)
}

// Where to sign in: the server of tools says it (RFC 9728), then the one of tokens.
const refused = await fetch(address, { method: 'POST', ...rpc('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'proving agent', version: '1.0.0' } }, 1) })
const challenge = refused.headers.get('www-authenticate') ?? ''
const { resource, authorization_servers: [issuer], scopes_supported: scopes } = await documentOf(/resource_metadata="([^"]+)"/.exec(challenge)[1])
const { origin, pathname } = new URL(issuer)
const path = pathname === '/' ? '' : pathname
const as = await documentOf(`${origin}/.well-known/oauth-authorization-server${path}`, `${origin}/.well-known/openid-configuration${path}`)
if (!as.dpop_signing_alg_values_supported.includes('ES256')) throw new Error('no proofs by ES256')

async function register() {
  const response = await fetch(as.registration_endpoint, {
    method: 'POST', headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      client_name: 'Proving Agent', redirect_uris: [redirectUrl], grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'], token_endpoint_auth_method: 'none', dpop_bound_access_tokens: true,
    }),
  })
  return (await response.json()).client_id
}

const client_id = documentUrl || await register()
const verifier = randomBytes(32).toString('base64url')
const url = new URL(as.authorization_endpoint)
url.search = new URLSearchParams({
  response_type: 'code', client_id, redirect_uri: redirectUrl, state: 'the state', resource,
  code_challenge: digest(verifier), code_challenge_method: 'S256', dpop_jkt: await calculateJwkThumbprint(jwk),
  ...(scopes && { scope: scopes.join(' ') }),
})

async function answered() {
  const there = await fetch(url, { redirect: 'manual' })
  const location = there.headers.get('location') ?? ''
  if (location.startsWith(redirectUrl)) return new URL(location)
  const server = createServer().listen(new URL(redirectUrl).port, '127.0.0.1')
  await once(server, 'listening')
  console.log(`open ${url}`)
  for (;;) {
    const [request, response] = await once(server, 'request')
    const back = new URL(request.url, redirectUrl)
    response.setHeader('Content-Type', 'text/html').end('<p>You can close this page.</p>')
    if (back.pathname === new URL(redirectUrl).pathname) return back // and not its icon
  }
}

async function tokens(form) {
  const headers = { 'content-type': 'application/x-www-form-urlencoded' }
  const response = await prove(as.token_endpoint, { headers, body: new URLSearchParams({ client_id, resource, ...form }) })
  const answer = await response.json()
  if (!response.ok || answer.token_type.toLowerCase() !== 'dpop') throw new Error(`${response.status} ${answer.error} ${answer.token_type}`)
  return answer
}

const back = await answered()
const first = await tokens({ grant_type: 'authorization_code', code: back.searchParams.get('code'), redirect_uri: redirectUrl, code_verifier: verifier })
const listed = await tools(first.access_token)
let second
if (first.refresh_token) {
  second = await tokens({ grant_type: 'refresh_token', refresh_token: first.refresh_token })
  await tools(second.access_token)
}
const asBearer = await fetch(address, { method: 'POST', ...rpc('tools/list', {}, 1), headers: { ...rpc().headers, ...(second && { authorization: `Bearer ${second.access_token}` }) } })
console.log('done ' + JSON.stringify({
  client_id, text: listed.tools[0]?.name, scope: first.scope, refreshed: Boolean(second && second.access_token !== first.access_token && second.refresh_token !== first.refresh_token),
  again: second ? `${asBearer.status} ${asBearer.headers.get('www-authenticate')?.split(' ')[0]}` : '',
}))
process.exit()
