// One life of a grant with openid-client. Reads a job as JSON from standard
// input, and prints what happened as JSON.
import * as openid from 'openid-client'
import { job, report } from './job.mjs'

const authentication = {
  client_secret_post: openid.ClientSecretPost,
  client_secret_basic: openid.ClientSecretBasic,
  none: openid.None,
}[job.auth_method]
const server = { issuer: job.issuer, token_endpoint: job.token_endpoint }
const configuration = (secret) =>
  new openid.Configuration(server, job.client_id, undefined, authentication(secret))
const config = configuration(job.client_secret)

const exchange = (verifier, secret) =>
  openid.authorizationCodeGrant(secret ? configuration(secret) : config, new URL(job.callback_url), { pkceCodeVerifier: verifier })
const refresh = (token) => openid.refreshTokenGrant(config, token)

await report({ exchange, refresh })
