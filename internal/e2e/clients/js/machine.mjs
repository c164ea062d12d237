// Tokens of a client for itself, with each library. Reads a job as JSON from standard
// input, and prints the answers as JSON. With a private JWK, the client signs
// assertions (private_key_jwt); otherwise it sends its secret.
import * as oauth from 'oauth4webapi'
import * as openid from 'openid-client'
import { readFileSync } from 'node:fs'

const job = JSON.parse(readFileSync(0, 'utf8'))
const server = { issuer: job.issuer, token_endpoint: job.token_endpoint }
const key = job.jwk && {
  key: await crypto.subtle.importKey('jwk', job.jwk, { name: 'ECDSA', namedCurve: 'P-256' }, false, ['sign']),
  kid: job.jwk.kid,
}
const done = []

const config = new openid.Configuration(server, job.client_id, undefined,
  key ? openid.PrivateKeyJwt(key) : openid.ClientSecretBasic(job.client_secret))
done.push(await openid.clientCredentialsGrant(config, { scope: job.scope }))

const client = { client_id: job.client_id }
const authentication = key ? oauth.PrivateKeyJwt(key) : oauth.ClientSecretPost(job.client_secret)
const response = await oauth.clientCredentialsGrantRequest(server, client, authentication, new URLSearchParams({ scope: job.scope }))
done.push(await oauth.processClientCredentialsResponse(server, client, response))

console.log(JSON.stringify(done))
