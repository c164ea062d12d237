// One life of a grant whose tokens are bound to a key (RFC 9449), begun by a pushed
// request (RFC 9126), with one of two libraries. The argument is the job as JSON: the
// library, the issuer, the client's id, its private key if it signs assertions, its
// redirect URI and scope. The program prints where the browser is to go, reads from
// standard input where it came back to, and prints what happened.
import { createInterface } from 'node:readline'
import * as oauth from 'oauth4webapi'
import * as openid from 'openid-client'

const job = JSON.parse(process.argv[2])
const signing = job.jwk && {
  key: await crypto.subtle.importKey('jwk', job.jwk, { name: 'ECDSA', namedCurve: 'P-256' }, false, ['sign']),
  kid: job.jwk.kid,
}
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const verifier = oauth.generateRandomCodeVerifier()
const state = oauth.generateRandomState()
const request = {
  redirect_uri: job.redirect_uri, scope: job.scope, state,
  code_challenge: await oauth.calculatePKCECodeChallenge(verifier), code_challenge_method: 'S256',
}

async function browser(url) {
  console.log(String(url))
  return new URL((await lines.next()).value)
}

async function openidClient() {
  const config = await openid.discovery(new URL(job.issuer), job.client_id, undefined, signing ? openid.PrivateKeyJwt(signing) : openid.None())
  const DPoP = openid.getDPoPHandle(config, await openid.randomDPoPKeyPair())
  const back = await browser(await openid.buildAuthorizationUrlWithPAR(config, request, { DPoP }))
  const first = await openid.authorizationCodeGrant(config, back, { expectedState: state, pkceCodeVerifier: verifier }, undefined, { DPoP })
  const second = await openid.refreshTokenGrant(config, first.refresh_token, undefined, { DPoP })
  const userinfo = await openid.fetchUserInfo(config, second.access_token, 'alice', { DPoP })
  const other = openid.getDPoPHandle(config, await openid.randomDPoPKeyPair())
  const thief = await openid.refreshTokenGrant(config, second.refresh_token, undefined, { DPoP: other }).catch((e) => e)
  return { first, second, userinfo, thief }
}

async function oauth4webapi() {
  const issuer = new URL(job.issuer)
  const as = await oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer))
  const client = { client_id: job.client_id }
  const auth = signing ? oauth.PrivateKeyJwt(signing) : oauth.None()
  const DPoP = oauth.DPoP(client, await oauth.generateKeyPair('ES256'))
  // A proof without the server's nonce is repeated with it (RFC 9449 section 8).
  const twice = async (step) => {
    try {
      return await step()
    } catch (e) {
      if (!oauth.isDPoPNonceError(e)) throw e
      return step()
    }
  }
  const pushed = await twice(async () => oauth.processPushedAuthorizationResponse(as, client,
    await oauth.pushedAuthorizationRequest(as, client, auth, { response_type: 'code', ...request }, { DPoP })))
  const url = new URL(as.authorization_endpoint)
  url.searchParams.set('client_id', job.client_id)
  url.searchParams.set('request_uri', pushed.request_uri)
  const parameters = oauth.validateAuthResponse(as, client, await browser(url), state)
  const first = await twice(async () => oauth.processAuthorizationCodeResponse(as, client,
    await oauth.authorizationCodeGrantRequest(as, client, auth, parameters, job.redirect_uri, verifier, { DPoP })))
  const refresh = (token, DPoP) => twice(async () => oauth.processRefreshTokenResponse(as, client,
    await oauth.refreshTokenGrantRequest(as, client, auth, token, { DPoP })))
  const second = await refresh(first.refresh_token, DPoP)
  const userinfo = await twice(async () => oauth.processUserInfoResponse(as, client, 'alice',
    await oauth.userInfoRequest(as, client, second.access_token, { DPoP })))
  const thief = await refresh(second.refresh_token, oauth.DPoP(client, await oauth.generateKeyPair('ES256'))).catch((e) => e)
  return { first, second, userinfo, thief }
}

const { first, second, userinfo, thief } = await { 'openid-client': openidClient, oauth4webapi }[job.library]()
console.log(JSON.stringify({
  types: [first.token_type, second.token_type], refreshTokens: [first.refresh_token, second.refresh_token],
  accessToken: second.access_token, subject: userinfo.sub, thief: thief.error ?? thief.token_type,
}))
process.exit()
