// One life of a grant with oauth4webapi. Reads a job as JSON from standard
// input, and prints what happened as JSON.
import * as oauth from 'oauth4webapi'
import { job, report } from './job.mjs'

const as = { issuer: job.issuer, token_endpoint: job.token_endpoint }
const client = { client_id: job.client_id }
const authentication = {
  client_secret_post: oauth.ClientSecretPost,
  client_secret_basic: oauth.ClientSecretBasic,
  none: oauth.None,
}[job.auth_method]
const auth = authentication(job.client_secret)

const parameters = oauth.validateAuthResponse(as, client, new URL(job.callback_url), oauth.expectNoState)

async function exchange(verifier, secret) {
  const response = await oauth.authorizationCodeGrantRequest(
    as, client, secret ? authentication(secret) : auth, parameters, job.redirect_uri, verifier ?? oauth.nopkce)
  return oauth.processAuthorizationCodeResponse(as, client, response)
}

async function refresh(token) {
  const response = await oauth.refreshTokenGrantRequest(as, client, auth, token)
  return oauth.processRefreshTokenResponse(as, client, response)
}

await report({ exchange, refresh })
