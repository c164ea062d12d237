// Tokens of a client for itself, with each library. Reads a job as JSON from standard
// input, and prints the answers as JSON. With a private JWK, the client signs
// assertions (private_key_jwt); with a token, it presents that of its platform;
// otherwise it sends its secret.
import * as oauth from 'oauth4webapi'
import * as openid from 'openid-client'
import { readFileSync } from 'node:fs'

const job = JSON.parse(readFileSync(0, 'utf8'))
const server = { issuer: job.issuer, token_endpoint: job.token_endpoint }
const key = job.jwk && {
  key: await crypto.subtle.importKey('jwk', job.jwk, { name: 'ECDSA', namedCurve: 'P-256' }, false, ['sign']),
  kid: job.jwk.kid,
}
// Neither library knows a method for the token of a platform: it is an assertion that
// others signed (RFC 7523 section 2.2).
const present = job.token && ((server, { client_id }, body) => {
  body.set('client_id', client_id)
  body.set('client_assertion_type', 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer')
  body.set('client_assertion', job.token)
})
const done = []

const config = new openid.Configuration(server, job.client_id, undefined,
  present ?? (key ? openid.PrivateKeyJwt(key) : openid.ClientSecretBasic(job.client_secret)))
done.push(await openid.clientCredentialsGrant(config, { scope: job.scope }))

const client = { client_id: job.client_id }
const authentication = present ?? (key ? oauth.PrivateKeyJwt(key) : oauth.ClientSecretPost(job.client_secret))
const response = await oauth.clientCredentialsGrantRequest(server, client, authentication, new URLSearchParams({ scope: job.scope }))
done.push(await oauth.processClientCredentialsResponse(server, client, response))

console.log(JSON.stringify(done))
