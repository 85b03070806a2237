import type { Tables } from './rows.ts'

/**
 * What campaigns are made of. A campaign has the id of its batch and a token that of its job, so neither has a copy of
 * the other's state: `state` says only how far the publishing is, and everything after that is the batch's. Who owns
 * something is named as the engine names owners; an account is disabled and never deleted, so nothing refers to one.
 */
export const TABLES: Tables = {
  name: 'watermark',
  inOrder: ['wm_assets', 'wm_campaigns', 'wm_tokens', 'wm_detections', 'wm_keys'],
  versions: [
    `CREATE TABLE wm_assets (
      id text PRIMARY KEY,
      account_id text NOT NULL,
      name text NOT NULL,
      kind text NOT NULL CHECK (kind IN ('video', 'image')),
      bytes bigint NOT NULL,
      sha256 text NOT NULL,
      width bigint NOT NULL,
      height bigint NOT NULL,
      duration_ms bigint NOT NULL,
      codec text NOT NULL,
      created_at bigint NOT NULL
    );
    CREATE INDEX wm_assets_account ON wm_assets (account_id, id);
    CREATE TABLE wm_campaigns (
      id text PRIMARY KEY,
      account_id text NOT NULL,
      asset_id text NOT NULL REFERENCES wm_assets (id),
      name text NOT NULL,
      max_downloads bigint CHECK (max_downloads > 0),
      expires_at bigint,
      visible_wm bigint NOT NULL DEFAULT 1 CHECK (visible_wm IN (0, 1)),
      invisible_wm bigint NOT NULL DEFAULT 1 CHECK (invisible_wm IN (0, 1)),
      state text NOT NULL DEFAULT 'DRAFT' CHECK (state IN ('DRAFT', 'PUBLISHING', 'PUBLISHED')),
      created_at bigint NOT NULL,
      published_at bigint
    );
    CREATE INDEX wm_campaigns_account ON wm_campaigns (account_id, id);
    CREATE INDEX wm_campaigns_publishing ON wm_campaigns (id) WHERE state = 'PUBLISHING';
    CREATE TABLE wm_tokens (
      id text PRIMARY KEY,
      campaign_id text NOT NULL REFERENCES wm_campaigns (id) ON DELETE CASCADE,
      position bigint NOT NULL,
      recipient_name text NOT NULL,
      recipient_email text NOT NULL,
      downloads bigint NOT NULL DEFAULT 0,
      revoked_at bigint,
      UNIQUE (campaign_id, position)
    )`,
    // Which searches were made for a campaign: a job knows its input, and nobody can ask jobs for theirs.
    `CREATE TABLE wm_detections (
      id text PRIMARY KEY,
      campaign_id text NOT NULL REFERENCES wm_campaigns (id) ON DELETE CASCADE,
      file_name text NOT NULL,
      created_at bigint NOT NULL
    );
    CREATE INDEX wm_detections_campaign ON wm_detections (campaign_id, id)`,
    // Which key a campaign is marked with, by its fingerprint: what is marked with one cannot be found with another.
    `CREATE TABLE wm_keys (
      campaign_id text PRIMARY KEY REFERENCES wm_campaigns (id) ON DELETE CASCADE,
      key_id text NOT NULL
    )`,
  ],
}
