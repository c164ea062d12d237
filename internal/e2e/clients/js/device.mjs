// A device that signs its user in, with one of two libraries. Reads a job as JSON from
// standard input; prints the codes, and when the user has allowed it, what came of it.
import * as oauth from 'oauth4webapi'
import * as openid from 'openid-client'
import { readFileSync } from 'node:fs'

const job = JSON.parse(readFileSync(0, 'utf8'))
const method = { none: 'None', client_secret_basic: 'ClientSecretBasic', client_secret_post: 'ClientSecretPost' }[job.auth_method]
const print = (value) => console.log(JSON.stringify(value))

async function openidClient() {
  const config = await openid.discovery(new URL(job.issuer), job.client_id, undefined, openid[method](job.client_secret))
  openid.enableNonRepudiationChecks(config) // check the signature, beside TLS
  const codes = await openid.initiateDeviceAuthorization(config, { scope: job.scope })
  print(codes)
  const tokens = await openid.pollDeviceAuthorizationGrant(config, codes)
  return [tokens, tokens.claims(), await openid.refreshTokenGrant(config, tokens.refresh_token)]
}

async function oauth4webapi() {
  const issuer = new URL(job.issuer)
  const as = await oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer))
  const client = { client_id: job.client_id }
  const auth = oauth[method](job.client_secret)
  const codes = await oauth.processDeviceAuthorizationResponse(
    as, client, await oauth.deviceAuthorizationRequest(as, client, auth, { scope: job.scope }))
  print(codes)
  let tokens
  let { interval = 5 } = codes
  while (!tokens) {
    await new Promise((resolve) => setTimeout(resolve, interval * 1000))
    const response = await oauth.deviceCodeGrantRequest(as, client, auth, codes.device_code)
    try {
      tokens = await oauth.processDeviceCodeResponse(as, client, response)
      await oauth.validateApplicationLevelSignature(as, response)
    } catch (e) {
      if (!(e instanceof oauth.ResponseBodyError) || !['authorization_pending', 'slow_down'].includes(e.error)) throw e
      if (e.error === 'slow_down') interval += 5
    }
  }
  const refreshed = await oauth.processRefreshTokenResponse(
    as, client, await oauth.refreshTokenGrantRequest(as, client, auth, tokens.refresh_token))
  return [tokens, oauth.getValidatedIdTokenClaims(tokens), refreshed]
}

const [tokens, claims, refreshed] = await { 'openid-client': openidClient, oauth4webapi }[job.library]()
print({ sub: claims.sub, access_token: tokens.access_token, refreshed: refreshed.access_token, scope: tokens.scope })
