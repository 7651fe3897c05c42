// The density of models/two_pl.py for Stan: abilities sum to zero, difficulties centred,
// discriminations not.
data {
  int<lower=2> n_agents;
  int<lower=1> n_tasks;
  int<lower=1> n_cells;
  int<lower=1> agent[n_cells];
  int<lower=1> task[n_cells];
  int<lower=0> attempts[n_cells];
  int<lower=0> successes[n_cells];
  matrix[n_agents, n_agents - 1] basis;  // orthonormal columns, each summing to zero
}
parameters {
  real<lower=0> ability_sd;
  vector[n_agents - 1] coordinates;
  real difficulty_mean;
  real<lower=0> difficulty_sd;
  vector[n_tasks] difficulty;
  real<lower=0> log_discrimination_sd;
  vector[n_tasks] raw_log_discrimination;
}
transformed parameters {
  vector[n_agents] ability = basis * coordinates;
  vector[n_tasks] discrimination = exp(log_discrimination_sd * raw_log_discrimination);
}
model {
  target += normal_lpdf(ability_sd | 0, 2.5) + log(2);
  target += normal_lpdf(coordinates | 0, ability_sd);
  target += normal_lpdf(difficulty_mean | 0, 5);
  target += normal_lpdf(difficulty_sd | 0, 5) + log(2);
  target += normal_lpdf(difficulty | difficulty_mean, difficulty_sd);
  target += normal_lpdf(log_discrimination_sd | 0, 0.5) + log(2);
  target += std_normal_lpdf(raw_log_discrimination);
  target += binomial_logit_lpmf(successes | attempts,
                                discrimination[task] .* (ability[agent] - difficulty[task]));
}
